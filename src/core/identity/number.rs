//! Numbers as ECMAScript prints them, which is what RFC 8785 asks for.

use std::fmt::Write as _;

/// Writes a JSON number's source in its canonical spelling. Integers keep their digits; a number too large for a double keeps
/// its source.
pub(crate) fn write(source: &str, out: &mut String) {
    if !source.contains(['.', 'e', 'E']) {
        out.push_str(if source == "-0" { "0" } else { source });
        return;
    }
    match source.parse::<f64>() {
        Ok(0.0) => out.push('0'),
        Ok(value) if value.is_finite() => write_double(value, out),
        _ => out.push_str(source),
    }
}

/// `Number::toString` of ECMAScript for a finite number that is not 0.
fn write_double(value: f64, out: &mut String) {
    let shortest = shortest(value.abs());
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let digits: String = mantissa.chars().filter(|character| *character != '.').collect();
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    // Digits before the decimal point.
    let point = exponent.parse::<i32>().unwrap_or(0) + 1;

    if value < 0.0 {
        out.push('-');
    }
    // Writing into a String cannot fail.
    let zeros = |n: i32| "0".repeat(usize::try_from(n).unwrap_or(0));
    let (head, tail) = digits.split_at(usize::try_from(point).unwrap_or(0).min(digits.len()));
    if point > 21 || point <= -6 {
        let (first, rest) = digits.split_at(1);
        let dot = if rest.is_empty() { "" } else { "." };
        let sign = if point > 0 { "+" } else { "-" };
        let _ = write!(out, "{first}{dot}{rest}e{sign}{}", (point - 1).abs());
    } else if point <= 0 {
        let _ = write!(out, "0.{}{digits}", zeros(-point));
    } else if count <= point {
        let _ = write!(out, "{digits}{}", zeros(point - count));
    } else {
        let _ = write!(out, "{head}.{tail}");
    }
}

/// The shortest digits that read back as the same double, in Rust's exponent form. Of two that are equally near, Rust may take
/// either and ECMAScript the even one: so does rounding to that many digits. Ties are possible from 16 digits on.
fn shortest(value: f64) -> String {
    let shortest = format!("{value:e}");
    let places = shortest.split_once('e').map_or(0, |(mantissa, _)| mantissa.len().saturating_sub(2));
    if places >= 14 {
        let rounded = format!("{value:.places$e}");
        if rounded.parse() == Ok(value) {
            return rounded;
        }
    }
    shortest
}

#[cfg(test)]
mod tests {
    use super::write;

    #[test]
    fn numbers_print_as_ecmascript_prints_them() {
        for (source, canonical) in [
            ("1.0", "1"),
            ("-0", "0"),
            ("-0.0", "0"),
            ("0e5", "0"),
            ("1e2", "100"),
            ("1E+2", "100"),
            ("1.50", "1.5"),
            ("-12.25", "-12.25"),
            ("0.000001", "0.000001"),
            ("0.0000001", "1e-7"),
            ("1e21", "1e+21"),
            ("1e20", "100000000000000000000"),
            ("123456789.123e15", "1.23456789123e+23"),
            ("1.5e-10", "1.5e-10"),
            ("5e-324", "5e-324"),
            ("1.7976931348623157e308", "1.7976931348623157e+308"),
            ("333333333.33333329", "333333333.3333333"),
            ("1e-400", "0"),
            ("908998193700661.25", "908998193700661.2"),
            ("5.684341886080802e-14", "5.684341886080802e-14"),
        ] {
            let mut out = String::new();
            write(source, &mut out);
            assert_eq!(out, canonical, "{source}");
        }
    }

    #[test]
    fn integers_keep_their_digits_and_numbers_beyond_a_double_their_source() {
        for source in
            ["9007199254740991", "9007199254740993", "-9007199254740995", "123456789012345678901234567890", "1e400", "-1.5E400"]
        {
            let mut out = String::new();
            write(source, &mut out);
            assert_eq!(out, source);
        }
    }
}
