"""A candidate against a policy: may it be released?"""
