//! The notation of a row's `syntax` column: the arguments of a command as COMMAND DOCS lists them, in one readable line.
//!
//! ```text
//!   key:key#0                      an argument with its type; #n says which key specification it belongs to
//!   EX=seconds:integer             an argument behind its keyword
//!   NX=nx!                         a keyword alone
//!   condition(NX=nx!|XX=xx!)       one of these
//!   data{score:double member:string}*     these in turn; * and it may be repeated
//!   GET=pattern:pattern+           repeated with its keyword each time
//!   [...]                          optional
//!   PERSIST=persist!@6.2.0         since this version
//! ```
//!
//! Behind an argument stand, in this order and each only where it applies: `#n`, `@version`, `*`, `+`.

use std::fmt;

/// One argument of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument<'a> {
    pub name: &'a str,
    pub kind: Kind<'a>,
    /// The keyword in front of it; `Some("")` is an empty word.
    pub token: Option<&'a str>,
    pub key_spec: Option<usize>,
    pub since: Option<&'a str>,
    pub optional: bool,
    pub multiple: bool,
    /// Every repetition has its keyword.
    pub multiple_token: bool,
}

/// What an argument is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind<'a> {
    /// A word: `string`, `integer`, `double`, `key`, `pattern`, `unix-time`.
    Word(&'a str),
    /// Nothing but its keyword.
    PureToken,
    OneOf(Vec<Argument<'a>>),
    Block(Vec<Argument<'a>>),
}

impl Argument<'_> {
    /// The arguments it contains.
    pub fn inner(&self) -> &[Argument<'_>] {
        match &self.kind {
            Kind::OneOf(inner) | Kind::Block(inner) => inner,
            Kind::Word(_) | Kind::PureToken => &[],
        }
    }

    /// The type's name in COMMAND DOCS.
    pub fn type_name(&self) -> &str {
        match self.kind {
            Kind::Word(name) => name,
            Kind::PureToken => "pure-token",
            Kind::OneOf(_) => "oneof",
            Kind::Block(_) => "block",
        }
    }
}

/// Reads a row's syntax. A line that does not follow the notation is our own bug: a test reads every row.
pub fn parse(syntax: &str) -> Vec<Argument<'_>> {
    let mut parser = Parser { rest: syntax };
    if syntax.is_empty() {
        return Vec::new();
    }
    let arguments = parser.list(' ');
    assert!(parser.rest.is_empty(), "syntax '{syntax}' goes on with '{}'", parser.rest);
    arguments
}

struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn eat(&mut self, symbol: char) -> bool {
        match self.rest.strip_prefix(symbol) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, symbol: char) {
        assert!(self.eat(symbol), "syntax wants '{symbol}' at '{}'", self.rest);
    }

    /// What stands before the first of `ends`.
    fn until(&mut self, ends: &[char]) -> &'a str {
        let (word, rest) = self.rest.split_at(self.rest.find(ends).unwrap_or(self.rest.len()));
        self.rest = rest;
        word
    }

    fn list(&mut self, separator: char) -> Vec<Argument<'a>> {
        let mut arguments = vec![self.argument()];
        while self.eat(separator) {
            arguments.push(self.argument());
        }
        arguments
    }

    fn argument(&mut self) -> Argument<'a> {
        if self.eat('[') {
            let argument = self.argument();
            self.expect(']');
            return Argument { optional: true, ..argument };
        }
        let token = self.token();
        let name = self.until(&['!', '(', '{', ':']);
        let kind = if self.eat('!') {
            Kind::PureToken
        } else if self.eat('(') {
            let inner = self.list('|');
            self.expect(')');
            Kind::OneOf(inner)
        } else if self.eat('{') {
            let inner = self.list(' ');
            self.expect('}');
            Kind::Block(inner)
        } else {
            self.expect(':');
            Kind::Word(self.until(&['#', '@', '*', '+', ' ', '|', ']', ')', '}']))
        };
        let after = ['@', '*', '+', ' ', '|', ']', ')', '}'];
        let key_spec = self.eat('#').then(|| {
            let number = self.until(&after);
            number.parse().unwrap_or_else(|_| panic!("'{number}' is no number of a key specification"))
        });
        let since = self.eat('@').then(|| self.until(&after[1..]));
        Argument {
            name,
            kind,
            token,
            key_spec,
            since,
            optional: false,
            multiple: self.eat('*'),
            multiple_token: self.eat('+'),
        }
    }

    /// The keyword in front of a name: up to a `=` that stands before anything else of the notation. `=` itself is one, too.
    fn token(&mut self) -> Option<&'a str> {
        let from = usize::from(self.rest.starts_with('='));
        let end = self.rest[from..].find(['=', '!', '(', '{', ':'])? + from;
        if !self.rest[end..].starts_with('=') {
            return None;
        }
        let (token, rest) = self.rest.split_at(end);
        self.rest = &rest[1..];
        Some(if token == "\"\"" { "" } else { token })
    }
}

impl fmt::Display for Argument<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.optional {
            f.write_str("[")?;
        }
        match self.token {
            Some("") => f.write_str("\"\"=")?,
            Some(token) => write!(f, "{token}=")?,
            None => {}
        }
        f.write_str(self.name)?;
        match &self.kind {
            Kind::Word(name) => write!(f, ":{name}")?,
            Kind::PureToken => f.write_str("!")?,
            Kind::OneOf(inner) => write!(f, "({})", joined(inner, "|"))?,
            Kind::Block(inner) => write!(f, "{{{}}}", joined(inner, " "))?,
        }
        if let Some(number) = self.key_spec {
            write!(f, "#{number}")?;
        }
        if let Some(since) = self.since {
            write!(f, "@{since}")?;
        }
        f.write_str(if self.multiple { "*" } else { "" })?;
        f.write_str(if self.multiple_token { "+" } else { "" })?;
        f.write_str(if self.optional { "]" } else { "" })
    }
}

/// Arguments in the notation they were read from.
pub fn joined(arguments: &[Argument<'_>], separator: &str) -> String {
    arguments.iter().map(Argument::to_string).collect::<Vec<_>>().join(separator)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &[&str] = &[
        "",
        "key:key#0",
        "key:key#0 value:string [condition(NX=nx!|XX=xx!|IFEQ=comparison-value:string@8.1.0)@2.6.12] [GET=get!@6.2.0]",
        "data{key:key#0 value:string}*",
        "key:key#0 [strategy(==equal!|~=approximately!)] threshold:string [LIMIT=count:integer]",
        "[BY=by-pattern:pattern#1] [GET=get-pattern:pattern#1*+] [filter([A=a:string*]|[B=b{c:string d:integer}@1.0])*]",
        "id-selector(new-id:string|\"\"=empty!)",
    ];

    #[test]
    fn what_is_read_can_be_written_again() {
        for line in LINES {
            assert_eq!(joined(&parse(line), " "), *line);
        }
    }

    #[test]
    fn every_part_has_its_place() {
        let arguments = parse(LINES[2]);
        assert_eq!(arguments.len(), 4);
        assert_eq!(
            (arguments[0].name, arguments[0].type_name(), arguments[0].key_spec),
            ("key", "key", Some(0))
        );
        let condition = &arguments[2];
        assert!(condition.optional && condition.token.is_none());
        assert_eq!((condition.type_name(), condition.since), ("oneof", Some("2.6.12")));
        assert_eq!(condition.inner()[2].token, Some("IFEQ"));
        assert_eq!(condition.inner()[2].kind, Kind::Word("string"));
        assert_eq!((arguments[3].kind.clone(), arguments[3].token), (Kind::PureToken, Some("GET")));
        let trim = parse(LINES[4]);
        assert_eq!(trim[1].inner()[0].token, Some("="));
        let sort = parse(LINES[5]);
        assert!(sort[1].multiple && sort[1].multiple_token && sort[2].multiple);
        assert_eq!(parse(LINES[6])[0].inner()[1].token, Some(""));
    }

    #[test]
    #[should_panic(expected = "syntax wants ']'")]
    fn a_mistake_is_found() {
        parse("[key:key");
    }
}
