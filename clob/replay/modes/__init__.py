"""Ways to execute a recording: matching every order again, or following the recorded book."""
