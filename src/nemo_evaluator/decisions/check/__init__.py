"""Is a finished run fit to be used?"""
