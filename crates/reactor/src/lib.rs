//! The I/O island: one ring or epoll per thread, sockets, wake-ups, clocks.
