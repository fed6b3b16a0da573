"""How good the detector is: experiments that anyone can run again, one module each."""
