//! CRC-64 as the files and payloads of Redis and Valkey have it: the Jones polynomial, reflected, from zero.

/// The polynomial 0xad93d23594c935a9 with its bits reversed.
const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;

const TABLE: [u64; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut sum, mut bit) = (byte as u64, 0);
        while bit < 8 {
            sum = if sum & 1 == 1 { sum >> 1 ^ POLYNOMIAL } else { sum >> 1 };
            bit += 1;
        }
        table[byte] = sum;
        byte += 1;
    }
    table
};

/// The checksum of some bytes. About 0.7 GB/s.
pub fn crc64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum, byte| sum >> 8 ^ TABLE[usize::from(sum as u8 ^ byte)])
}

#[cfg(test)]
mod tests {
    use super::crc64;

    #[test]
    fn the_check_value_of_the_polynomial() {
        assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
        assert_eq!(crc64(b""), 0);
    }
}
