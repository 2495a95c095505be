//! Digits of a double by Grisu2 (Florian Loitsch, "Printing Floating-Point Numbers Quickly and Accurately with
//! Integers", PLDI 2010, section 5).
//!
//! Not the shortest digits: in some 0.3 % of cases one or two digits more, or a neighbour of the closest, as
//! Valkey answers them. Every result reads back as the same double.

/// A number as mantissa * 2^exponent, the top bit of the mantissa set.
#[derive(Clone, Copy)]
struct Scaled {
    mantissa: u64,
    exponent: i32,
}

/// Most digits that are ever needed; the algorithm stops before.
pub(super) const DIGITS_MAX: usize = 20;

/// Exponent of ten of the first entry of [`POWERS`], and from one to the next.
const POWERS_FIRST: i32 = -348;
const POWERS_STEP: i32 = 8;

/// The product with a power of ten is brought into this range of exponents, so that its integral part has at
/// most 32 bits.
const EXPONENT_MIN: i32 = -60;
const EXPONENT_MAX: i32 = -32;

/// Writes the digits of `value`, which must be positive and finite, to the start of `digits`. Returns their number
/// and the exponent of ten that the integer they form is to be multiplied with.
pub(super) fn digits(value: f64, digits: &mut [u8; DIGITS_MAX]) -> (usize, i32) {
    let (exact, low, high) = with_boundaries(value);
    let (power, power_of_ten) = power_for(high.exponent);
    let exact = multiply(exact, power);
    // One unit towards the middle, because each product is off by at most that.
    let low = multiply(low, power).mantissa + 1;
    let high = Scaled { mantissa: multiply(high, power).mantissa - 1, ..exact };
    let (count, scale) = generate(high, high.mantissa - low, high.mantissa - exact.mantissa, digits);
    (count, scale - power_of_ten)
}

/// `value` and the middles between it and its neighbours, all with one exponent.
fn with_boundaries(value: f64) -> (Scaled, Scaled, Scaled) {
    const HIDDEN: u64 = 1 << 52;
    let bits = value.to_bits();
    let (fraction, field) = (bits & (HIDDEN - 1), (bits >> 52) as i32);
    let (mantissa, exponent) =
        if field == 0 { (fraction, 1 - 1075) } else { (fraction | HIDDEN, field - 1075) };
    let high = normalize(mantissa * 2 + 1, exponent - 1);
    // Below a power of two the next double is only half as far away.
    let (low, low_exponent) =
        if mantissa == HIDDEN { (mantissa * 4 - 1, exponent - 2) } else { (mantissa * 2 - 1, exponent - 1) };
    let low = Scaled { mantissa: low << (low_exponent - high.exponent), exponent: high.exponent };
    (normalize(mantissa, exponent), low, high)
}

fn normalize(mantissa: u64, exponent: i32) -> Scaled {
    let shift = mantissa.leading_zeros();
    Scaled { mantissa: mantissa << shift, exponent: exponent - shift as i32 }
}

/// The upper half of the product, rounded.
fn multiply(a: Scaled, b: Scaled) -> Scaled {
    let product = u128::from(a.mantissa) * u128::from(b.mantissa) + (1 << 63);
    Scaled { mantissa: (product >> 64) as u64, exponent: a.exponent + b.exponent + 64 }
}

/// A power of ten that brings `exponent` into the range, and which power that is.
fn power_for(exponent: i32) -> (Scaled, i32) {
    // 78913 / 2^18 is log10(2) with an error below 2^-20: exact enough to be one entry off at most.
    let estimate = (-(exponent + POWERS.len() as i32) * 78_913) >> 18;
    let mut index = ((estimate - POWERS_FIRST) / POWERS_STEP) as usize;
    loop {
        let (mantissa, power_exponent) = POWERS[index];
        let power = Scaled { mantissa, exponent: i32::from(power_exponent) };
        match exponent + power.exponent + 64 {
            ..EXPONENT_MIN => index += 1,
            EXPONENT_MIN..=EXPONENT_MAX => return (power, POWERS_FIRST + index as i32 * POWERS_STEP),
            _ => index -= 1,
        }
    }
}

/// Digits of `high`, from the left, until what is left is within `delta`; `distance` is from `high` down to the
/// exact value. Returns their number and the power of ten of the last one.
fn generate(high: Scaled, delta: u64, distance: u64, digits: &mut [u8; DIGITS_MAX]) -> (usize, i32) {
    let shift = high.exponent.unsigned_abs();
    let one = 1_u64 << shift;
    let (mut whole, mut fraction) = (high.mantissa >> shift, high.mantissa & (one - 1));
    let mut count = 0;
    let mut put = |digit: u64, count: &mut usize| {
        if digit != 0 || *count > 0 {
            digits[*count] = b'0' + digit as u8;
            *count += 1;
        }
    };
    for power in (0..10).rev() {
        let unit = 10_u64.pow(power);
        put(whole / unit, &mut count);
        whole %= unit;
        let rest = (whole << shift) + fraction;
        if rest <= delta {
            weed(&mut digits[..count], rest, delta, distance, unit << shift);
            return (count, power as i32);
        }
    }
    let (mut delta, mut scale) = (delta, 1);
    for power in 1.. {
        fraction *= 10;
        delta *= 10;
        scale *= 10;
        put(fraction >> shift, &mut count);
        fraction &= one - 1;
        if fraction < delta {
            weed(&mut digits[..count], fraction, delta, distance.wrapping_mul(scale), one);
            return (count, -power);
        }
    }
    unreachable!("delta grows tenfold per digit and exceeds every fraction")
}

/// Lowers the last digit while that brings the number, which lies `rest` below `high`, closer to the exact value
/// and leaves it within `delta`.
fn weed(digits: &mut [u8], mut rest: u64, delta: u64, distance: u64, unit: u64) {
    let Some(last) = digits.last_mut() else { return };
    while rest < distance
        && delta - rest >= unit
        && (rest + unit < distance || distance - rest > rest + unit - distance)
    {
        *last -= 1;
        rest += unit;
    }
}

/// 10^-348, 10^-340 ... 10^340 as (mantissa, exponent of two), rounded to the nearest.
#[rustfmt::skip]
static POWERS: [(u64, i16); 87] = [
    (0xfa8fd5a0081c0288, -1220),
    (0xbaaee17fa23ebf76, -1193),
    (0x8b16fb203055ac76, -1166),
    (0xcf42894a5dce35ea, -1140),
    (0x9a6bb0aa55653b2d, -1113),
    (0xe61acf033d1a45df, -1087),
    (0xab70fe17c79ac6ca, -1060),
    (0xff77b1fcbebcdc4f, -1034),
    (0xbe5691ef416bd60c, -1007),
    (0x8dd01fad907ffc3c, -980),
    (0xd3515c2831559a83, -954),
    (0x9d71ac8fada6c9b5, -927),
    (0xea9c227723ee8bcb, -901),
    (0xaecc49914078536d, -874),
    (0x823c12795db6ce57, -847),
    (0xc21094364dfb5637, -821),
    (0x9096ea6f3848984f, -794),
    (0xd77485cb25823ac7, -768),
    (0xa086cfcd97bf97f4, -741),
    (0xef340a98172aace5, -715),
    (0xb23867fb2a35b28e, -688),
    (0x84c8d4dfd2c63f3b, -661),
    (0xc5dd44271ad3cdba, -635),
    (0x936b9fcebb25c996, -608),
    (0xdbac6c247d62a584, -582),
    (0xa3ab66580d5fdaf6, -555),
    (0xf3e2f893dec3f126, -529),
    (0xb5b5ada8aaff80b8, -502),
    (0x87625f056c7c4a8b, -475),
    (0xc9bcff6034c13053, -449),
    (0x964e858c91ba2655, -422),
    (0xdff9772470297ebd, -396),
    (0xa6dfbd9fb8e5b88f, -369),
    (0xf8a95fcf88747d94, -343),
    (0xb94470938fa89bcf, -316),
    (0x8a08f0f8bf0f156b, -289),
    (0xcdb02555653131b6, -263),
    (0x993fe2c6d07b7fac, -236),
    (0xe45c10c42a2b3b06, -210),
    (0xaa242499697392d3, -183),
    (0xfd87b5f28300ca0e, -157),
    (0xbce5086492111aeb, -130),
    (0x8cbccc096f5088cc, -103),
    (0xd1b71758e219652c, -77),
    (0x9c40000000000000, -50),
    (0xe8d4a51000000000, -24),
    (0xad78ebc5ac620000, 3),
    (0x813f3978f8940984, 30),
    (0xc097ce7bc90715b3, 56),
    (0x8f7e32ce7bea5c70, 83),
    (0xd5d238a4abe98068, 109),
    (0x9f4f2726179a2245, 136),
    (0xed63a231d4c4fb27, 162),
    (0xb0de65388cc8ada8, 189),
    (0x83c7088e1aab65db, 216),
    (0xc45d1df942711d9a, 242),
    (0x924d692ca61be758, 269),
    (0xda01ee641a708dea, 295),
    (0xa26da3999aef774a, 322),
    (0xf209787bb47d6b85, 348),
    (0xb454e4a179dd1877, 375),
    (0x865b86925b9bc5c2, 402),
    (0xc83553c5c8965d3d, 428),
    (0x952ab45cfa97a0b3, 455),
    (0xde469fbd99a05fe3, 481),
    (0xa59bc234db398c25, 508),
    (0xf6c69a72a3989f5c, 534),
    (0xb7dcbf5354e9bece, 561),
    (0x88fcf317f22241e2, 588),
    (0xcc20ce9bd35c78a5, 614),
    (0x98165af37b2153df, 641),
    (0xe2a0b5dc971f303a, 667),
    (0xa8d9d1535ce3b396, 694),
    (0xfb9b7cd9a4a7443c, 720),
    (0xbb764c4ca7a44410, 747),
    (0x8bab8eefb6409c1a, 774),
    (0xd01fef10a657842c, 800),
    (0x9b10a4e5e9913129, 827),
    (0xe7109bfba19c0c9d, 853),
    (0xac2820d9623bf429, 880),
    (0x80444b5e7aa7cf85, 907),
    (0xbf21e44003acdd2d, 933),
    (0x8e679c2f5e44ff8f, 960),
    (0xd433179d9c8cb841, 986),
    (0x9e19db92b4e31ba9, 1013),
    (0xeb96bf6ebadf77d9, 1039),
    (0xaf87023b9bf0ee6b, 1066),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::big::Big;

    #[test]
    fn powers_are_correctly_rounded() {
        for (index, &(mantissa, exponent)) in POWERS.iter().enumerate() {
            let power = POWERS_FIRST + index as i32 * POWERS_STEP;
            let mut ten = Big::new(1);
            ten.mul_pow10(power.unsigned_abs() as usize);
            // Twice the mantissa, cut: its lowest bit decides the rounding.
            let doubled = if power >= 0 {
                // Small powers have fewer bits than a mantissa.
                ten.shl(128);
                ten.bits_from((i32::from(exponent) + 127) as usize, 65).0
            } else {
                let mut one = Big::new(1);
                one.shl((1 - i32::from(exponent)) as usize);
                one.div(&ten, 66).0
            };
            assert_eq!(doubled.div_ceil(2), u128::from(mantissa), "10^{power}");
        }
    }
}
