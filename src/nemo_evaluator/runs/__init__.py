"""What a run is read with: folders, bundles, rows and the index beside them. Nothing else opens these files."""
