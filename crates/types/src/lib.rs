//! Values: what a key can hold. Knows no key, clock or protocol.
