"""The round and everything it is made of: types, parts, tasks, records, and the maths of models."""
