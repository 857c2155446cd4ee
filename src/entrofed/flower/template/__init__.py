"""A Flower app whose server chooses and weighs its clients with EntroFed."""
