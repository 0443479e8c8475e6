"""What every serving process does now and then: recover, heal, tidy up."""
