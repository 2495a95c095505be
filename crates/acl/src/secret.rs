//! Passwords: only their SHA-256 is kept, and it is compared in a time that tells nothing.

use sha2::{Digest, Sha256};

/// The SHA-256 of a password.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Secret([u8; 32]);

impl Secret {
    pub fn of(password: &[u8]) -> Self {
        Self(Sha256::digest(password).into())
    }

    /// 64 hexadecimal digits in lower case.
    pub fn from_hex(text: &[u8]) -> Option<Self> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let mut bytes = [0; 32];
        if text.len() != 2 * bytes.len() {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Self(bytes))
    }

    pub fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Looks at every byte, whatever the first difference is.
    pub fn equals(&self, other: &Self) -> bool {
        let difference = self.0.iter().zip(&other.0).fold(0, |all, (a, b)| all | (a ^ b));
        std::hint::black_box(difference) == 0
    }
}
