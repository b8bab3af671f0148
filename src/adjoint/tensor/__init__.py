"""Tensors that record what is done with them: the recorder behind the object door and the functional door."""
