"""Human labels against a judge: which rows to label, what they say of it, and the score they correct."""
