//! What a command is: its row, its arguments, its effect, its error.
