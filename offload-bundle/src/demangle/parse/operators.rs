//! Operators: how names and expressions write them.

use super::super::tree::Precedence;

/// What an operator is in an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Prefix,
    Postfix,
    Binary,
    Subscript,
    /// With a function that has its name, or not.
    Member {
        nameable: bool,
    },
    New {
        is_array: bool,
    },
    Delete {
        is_array: bool,
    },
    Call {
        in_parentheses: bool,
    },
    /// A conversion, which a name can be, too.
    Conversion,
    Conditional,
    /// Of names alone.
    Name,
    NamedCast,
    /// `sizeof` and the like, of a type or an expression.
    Query {
        of_type: bool,
    },
}

#[derive(Debug)]
pub(super) struct Operator {
    code: [u8; 2],
    pub(super) class: Class,
    pub(super) precedence: Precedence,
    /// With `operator` in front where a function can be called so.
    pub(super) name: &'static str,
}

impl Operator {
    /// As expressions write it.
    pub(super) fn symbol(&self) -> &'static [u8] {
        self.name.strip_prefix("operator").map_or(self.name, str::trim_start).as_bytes()
    }

    pub(super) fn can_name_function(&self) -> bool {
        !matches!(self.class, Class::NamedCast | Class::Query { .. } | Class::Member { nameable: false })
    }

    pub(super) fn can_fold(&self) -> bool {
        self.class == Class::Binary || (matches!(self.class, Class::Member { .. }) && self.name.ends_with('*'))
    }
}

pub(super) fn find(code: [u8; 2]) -> Option<&'static Operator> {
    OPERATORS.iter().find(|operator| operator.code == code)
}

const fn row(code: [u8; 2], class: Class, precedence: Precedence, name: &'static str) -> Operator {
    Operator { code, class, precedence, name }
}

const fn binary(code: [u8; 2], precedence: Precedence, name: &'static str) -> Operator {
    row(code, Class::Binary, precedence, name)
}

const fn prefix(code: [u8; 2], name: &'static str) -> Operator {
    row(code, Class::Prefix, Precedence::Unary, name)
}

const fn query(code: [u8; 2], of_type: bool, precedence: Precedence, name: &'static str) -> Operator {
    row(code, Class::Query { of_type }, precedence, name)
}

static OPERATORS: &[Operator] = &[
    prefix(*b"ps", "operator+"),
    prefix(*b"ng", "operator-"),
    prefix(*b"ad", "operator&"),
    prefix(*b"de", "operator*"),
    prefix(*b"co", "operator~"),
    prefix(*b"nt", "operator!"),
    row(*b"pp", Class::Postfix, Precedence::Postfix, "operator++"),
    row(*b"mm", Class::Postfix, Precedence::Postfix, "operator--"),
    binary(*b"pl", Precedence::Additive, "operator+"),
    binary(*b"mi", Precedence::Additive, "operator-"),
    binary(*b"ml", Precedence::Multiplicative, "operator*"),
    // Division binds as weakly as an assignment in LLVM's demangler.
    binary(*b"dv", Precedence::Assign, "operator/"),
    binary(*b"rm", Precedence::Multiplicative, "operator%"),
    binary(*b"an", Precedence::And, "operator&"),
    binary(*b"or", Precedence::Or, "operator|"),
    binary(*b"eo", Precedence::Xor, "operator^"),
    binary(*b"ls", Precedence::Shift, "operator<<"),
    binary(*b"rs", Precedence::Shift, "operator>>"),
    binary(*b"aS", Precedence::Assign, "operator="),
    binary(*b"pL", Precedence::Assign, "operator+="),
    binary(*b"mI", Precedence::Assign, "operator-="),
    binary(*b"mL", Precedence::Assign, "operator*="),
    binary(*b"dV", Precedence::Assign, "operator/="),
    binary(*b"rM", Precedence::Assign, "operator%="),
    binary(*b"aN", Precedence::Assign, "operator&="),
    binary(*b"oR", Precedence::Assign, "operator|="),
    binary(*b"eO", Precedence::Assign, "operator^="),
    binary(*b"lS", Precedence::Assign, "operator<<="),
    binary(*b"rS", Precedence::Assign, "operator>>="),
    binary(*b"eq", Precedence::Equality, "operator=="),
    binary(*b"ne", Precedence::Equality, "operator!="),
    binary(*b"lt", Precedence::Relational, "operator<"),
    binary(*b"gt", Precedence::Relational, "operator>"),
    binary(*b"le", Precedence::Relational, "operator<="),
    binary(*b"ge", Precedence::Relational, "operator>="),
    binary(*b"ss", Precedence::Spaceship, "operator<=>"),
    binary(*b"aa", Precedence::AndIf, "operator&&"),
    binary(*b"oo", Precedence::OrIf, "operator||"),
    binary(*b"cm", Precedence::Comma, "operator,"),
    row(*b"qu", Class::Conditional, Precedence::Conditional, "operator?"),
    row(*b"ix", Class::Subscript, Precedence::Postfix, "operator[]"),
    row(*b"cl", Class::Call { in_parentheses: false }, Precedence::Postfix, "operator()"),
    row(*b"cp", Class::Call { in_parentheses: true }, Precedence::Postfix, "operator()"),
    row(*b"dt", Class::Member { nameable: false }, Precedence::Postfix, "operator."),
    row(*b"ds", Class::Member { nameable: false }, Precedence::PointerToMember, "operator.*"),
    row(*b"pt", Class::Member { nameable: true }, Precedence::Postfix, "operator->"),
    row(*b"pm", Class::Member { nameable: true }, Precedence::PointerToMember, "operator->*"),
    row(*b"nw", Class::New { is_array: false }, Precedence::Unary, "operator new"),
    row(*b"na", Class::New { is_array: true }, Precedence::Unary, "operator new[]"),
    row(*b"dl", Class::Delete { is_array: false }, Precedence::Unary, "operator delete"),
    row(*b"da", Class::Delete { is_array: true }, Precedence::Unary, "operator delete[]"),
    row(*b"aw", Class::Name, Precedence::Primary, "operator co_await"),
    row(*b"cv", Class::Conversion, Precedence::Cast, "operator"),
    row(*b"cc", Class::NamedCast, Precedence::Postfix, "const_cast"),
    row(*b"dc", Class::NamedCast, Precedence::Postfix, "dynamic_cast"),
    row(*b"rc", Class::NamedCast, Precedence::Postfix, "reinterpret_cast"),
    row(*b"sc", Class::NamedCast, Precedence::Postfix, "static_cast"),
    query(*b"at", true, Precedence::Unary, "alignof "),
    query(*b"az", false, Precedence::Unary, "alignof "),
    query(*b"st", true, Precedence::Unary, "sizeof "),
    query(*b"sz", false, Precedence::Unary, "sizeof "),
    query(*b"ti", true, Precedence::Postfix, "typeid "),
    query(*b"te", false, Precedence::Postfix, "typeid "),
];
