//! Literals in template arguments.

use super::super::tree::{Id, Kind, Piece, Precedence};
use super::Parser;

impl<'n> Parser<'n> {
    /// `<expr-primary>`
    pub(super) fn literal(&mut self) -> Option<Id> {
        self.expect(b"L")?;
        let first = self.peek(0);
        if let Some(ty) = integer(first) {
            self.skip(1);
            let value = self.ended(Self::required_number)?;
            return Some(self.tree.add(Kind::Integer { ty: ty.as_bytes(), value }));
        }
        match first {
            b'b' => self.boolean(),
            b'f' => self.float(8, |digits| {
                let bits = u32::from_str_radix(digits, 16).ok()?;
                Some(format!("{}f", hexadecimal(f64::from(f32::from_bits(bits)))))
            }),
            b'd' => self.float(16, |digits| Some(hexadecimal(f64::from_bits(u64::from_str_radix(digits, 16).ok()?)))),
            b'e' => self.float(20, |digits| {
                let bits = u128::from_str_radix(digits, 16).ok()?;
                Some(format!("{}L", extended(bits)))
            }),
            b'_' => {
                self.expect(b"_Z")?;
                self.ended(Self::encoding)
            }
            b'A' => {
                let ty = self.ended(Self::ty)?;
                Some(self.tree.pieces([Piece::Text(b"\"<"), Piece::Node(ty), Piece::Text(b">\"")]))
            }
            b'D' => {
                self.expect(b"Dn")?;
                self.eat(b"0");
                self.expect(b"E")?;
                Some(self.tree.name(b"nullptr"))
            }
            b'U' => self.lambda(),
            b'T' => None,
            _ => self.of_enumeration(),
        }
    }

    fn boolean(&mut self) -> Option<Id> {
        if self.eat(b"b1E") {
            return Some(self.tree.name(b"true"));
        }
        self.expect(b"b0E")?;
        Some(self.tree.pieces([Piece::Text(b"false")]))
    }

    fn lambda(&mut self) -> Option<Id> {
        if self.peek(1) != b'l' {
            return None;
        }
        let closure = self.unnamed(false)?;
        self.expect(b"E")?;
        let Kind::Lambda { declarator, .. } = *self.tree.kind(closure) else { return None };
        Some(self.tree.pieces([Piece::Text(b"[]"), Piece::Node(declarator), Piece::Text(b"{...}")]))
    }

    /// `<type> <number> E`
    fn of_enumeration(&mut self) -> Option<Id> {
        let ty = self.ty()?;
        let value = self.ended(Self::required_number)?;
        let [sign, digits] = signed(value);
        Some(self.tree.pieces([Piece::Open(b'('), Piece::Node(ty), Piece::Close(b')'), sign, digits]))
    }

    /// A number as the bytes of its representation, so many hexadecimal digits.
    fn float(&mut self, digits: usize, spell: impl FnOnce(&str) -> Option<String>) -> Option<Id> {
        self.skip(1);
        let digits = self.left().get(..digits)?;
        if !digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')) {
            return None;
        }
        self.skip(digits.len());
        self.expect(b"E")?;
        let spelled = spell(std::str::from_utf8(digits).ok()?)?;
        Some(self.tree.pieces([Piece::Spelled(spelled.into())]))
    }

    /// `fp <qualifiers> [<number>] _ | fL <number> p <qualifiers> [<number>] _ | fpT`
    pub(super) fn function_parameter(&mut self) -> Option<Id> {
        if self.eat(b"fpT") {
            return Some(self.tree.name(b"this"));
        }
        if !self.eat(b"fp") {
            self.expect(b"fL")?;
            if self.number(false).is_empty() {
                return None;
            }
            self.expect(b"p")?;
        }
        self.qualifiers();
        let number = self.number(false);
        self.expect(b"_")?;
        Some(self.tree.pieces([Piece::Text(b"fp"), Piece::Text(number)]))
    }

    /// `so <type> <expression> [<number>] (_ [<number>])* [p] E`: a part of an object.
    pub(super) fn subobject(&mut self) -> Option<Id> {
        let ty = self.ty()?;
        let object = self.expression()?;
        let offset = self.number(true);
        while self.eat(b"_") {
            self.number(false);
        }
        self.eat(b"p");
        self.expect(b"E")?;
        let [sign, digits] = signed(if offset.is_empty() { b"0" } else { offset });
        let title = Piece::Text(b" at offset ");
        let pieces = [Piece::Node(object), Piece::Text(b".<"), Piece::Node(ty), title, sign, digits, Piece::Text(b">")];
        Some(self.add_expression(pieces, Precedence::Primary))
    }
}

fn signed(value: &[u8]) -> [Piece<'_>; 2] {
    match value.strip_prefix(b"n") {
        Some(digits) => [Piece::Text(b"-"), Piece::Text(digits)],
        None => [Piece::Text(b""), Piece::Text(value)],
    }
}

/// How literals of this type are marked: by a suffix, or by a longer name in front.
fn integer(letter: u8) -> Option<&'static str> {
    Some(match letter {
        b'w' => "wchar_t",
        b'c' => "char",
        b'a' => "signed char",
        b'h' => "unsigned char",
        b's' => "short",
        b't' => "unsigned short",
        b'i' => "",
        b'j' => "u",
        b'l' => "l",
        b'm' => "ul",
        b'x' => "ll",
        b'y' => "ull",
        b'n' => "__int128",
        b'o' => "unsigned __int128",
        _ => return None,
    })
}

/// As `%a` of C prints it.
fn hexadecimal(value: f64) -> String {
    let bits = value.to_bits();
    let sign = if value.is_sign_negative() { "-" } else { "" };
    let (exponent, fraction) = ((bits >> 52) & 0x7ff, bits & ((1 << 52) - 1));
    match (exponent, fraction) {
        (0x7ff, 0) => format!("{sign}inf"),
        (0x7ff, _) => format!("{sign}nan"),
        (0, 0) => format!("{sign}0x0p+0"),
        (0, _) => format!("{sign}0x0{}p-1022", digits(fraction, 13)),
        _ => format!("{sign}0x1{}p{:+}", digits(fraction, 13), exponent.cast_signed() - 1023),
    }
}

/// The same for the 80 bits of an x87 `long double`, whose first digit has four bits of the mantissa.
fn extended(bits: u128) -> String {
    let sign = if bits >> 79 & 1 == 1 { "-" } else { "" };
    let exponent = i32::try_from(bits >> 64 & 0x7fff).unwrap_or_default();
    let mantissa = u64::try_from(bits & u128::from(u64::MAX)).unwrap_or_default();
    let (first, rest) = (mantissa >> 60, digits(mantissa & ((1 << 60) - 1), 15));
    match (exponent, mantissa) {
        (0x7fff, _) if mantissa << 1 == 0 => format!("{sign}inf"),
        (0x7fff, _) => format!("{sign}nan"),
        (0, 0) => format!("{sign}0x0p+0"),
        _ => format!("{sign}0x{first:x}{rest}p{:+}", exponent.max(1) - 16386),
    }
}

/// The digits behind the point, which goes with them.
fn digits(fraction: u64, width: usize) -> String {
    let all = format!("{fraction:0width$x}");
    let digits = all.trim_end_matches('0');
    if digits.is_empty() { String::new() } else { format!(".{digits}") }
}
