"""Human labels against a judge: the draw of rows to label, the judge's agreement, and the corrected score."""
