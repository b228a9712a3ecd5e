"""Where a run happens: one file per executor."""
