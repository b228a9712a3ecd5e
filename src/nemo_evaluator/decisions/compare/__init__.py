"""Two runs side by side: is the candidate worse, better, the same?"""
