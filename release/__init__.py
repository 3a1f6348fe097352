"""Programs that build a release and prove it: wheels, and the pages of a first hour."""
