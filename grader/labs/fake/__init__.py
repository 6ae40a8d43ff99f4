"""The fake API server of lab 4.3.3, and the operators that only a real one sees through."""
