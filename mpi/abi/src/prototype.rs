//! Parameters and result of a function.

use super::Starts;

/// A parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its type as the table has it: of C, without the prefix `MPI_` and with brackets behind it.
    pub of: String,
    /// Its name; empty for `...`.
    pub name: String,
    /// What an `int` is in Fortran.
    pub meaning: Meaning,
    /// Whether the function reads and writes the value.
    pub is_inout: bool,
    /// The name of the parameter that has the length of a list; empty if the table gives none.
    pub length: String,
}

/// What an `int` is in Fortran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Meaning {
    /// INTEGER.
    #[default]
    Number,
    /// LOGICAL.
    Logical,
    /// INTEGER, the first is 1.
    Index,
}

impl Parameter {
    /// Reads type and name.
    fn read(text: &str) -> Self {
        let (of, name) = text.rsplit_once(' ').unwrap_or((text, ""));
        let (is_inout, of) = match of.strip_prefix("inout ") {
            Some(of) => (true, of),
            None => (false, of),
        };
        let (meaning, mut of) = match () {
            () if of.contains("logical") => (Meaning::Logical, of.replace("logical", "int")),
            () if of.contains("index") => (Meaning::Index, of.replace("index", "int")),
            () => (Meaning::Number, of.to_owned()),
        };
        let mut length = String::new();
        if let (Some(begin), Some(end)) = (of.find('['), of.find(']'))
            && !of.ends_with("[3]")
        {
            length = of.drain(begin + 1..end).collect();
        }
        Self {
            of,
            name: name.to_owned(),
            meaning,
            is_inout,
            length,
        }
    }
}

/// Parameters and result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prototype {
    /// In their order.
    pub parameters: Vec<Parameter>,
    /// Type of the result.
    pub result: String,
    /// For large counts; `None`: not decided, or it makes no difference.
    pub is_large: Option<bool>,
}

/// Words for types that differ between small and large counts, with both types.
const COUNTS: [(&str, [&str; 2]); 3] = [
    ("count", ["int", "Count"]),
    ("displ", ["int", "Aint"]),
    ("size", ["Aint", "Count"]),
];

/// The word for a type that differs, in a type.
pub fn counted(of: &str) -> Option<(&'static str, [&'static str; 2])> {
    let word = of.trim_start_matches("const ");
    let word = word.trim_end_matches(['*', '[', ']']);
    COUNTS.into_iter().find(|(name, _)| *name == word)
}

impl Prototype {
    /// Reads the text behind the name.
    pub fn read(text: &str) -> Self {
        let (parameters, result) = text.split_once("->").unwrap_or((text, "int"));
        let parameters = parameters.split(',').map(str::trim);
        Self {
            parameters: parameters
                .filter(|text| !text.is_empty())
                .map(Parameter::read)
                .collect(),
            result: result.trim().to_owned(),
            is_large: None,
        }
    }

    /// Whether a function for large counts exists.
    pub fn has_counts(&self) -> bool {
        (self.parameters.iter()).any(|parameter| counted(&parameter.of).is_some())
    }

    /// For large counts or small ones.
    pub fn sized(&self, is_large: bool) -> Self {
        Self {
            is_large: Some(is_large),
            ..self.clone()
        }
    }

    /// The type of a parameter in C, without the prefix: no word for a count is left.
    pub fn type_of(&self, parameter: &Parameter) -> String {
        match counted(&parameter.of) {
            Some((word, [small, large])) => {
                let of = if self.is_large == Some(true) {
                    large
                } else {
                    small
                };
                parameter.of.replace(word, of)
            }
            None => parameter.of.clone(),
        }
    }

    fn with(&self, more: &[(&str, &str)]) -> Self {
        let mut with = self.clone();
        let more = more
            .iter()
            .map(|(of, name)| Parameter::read(&format!("{of} {name}")));
        with.parameters.extend(more);
        with
    }
}

/// The three functions of a collective.
pub fn collective(name: &str, prototype: &Prototype) -> [(String, Prototype, Starts); 3] {
    let request = ("Request*", "request");
    let (first, rest) = name.split_at(1);
    let begun = format!("I{}{rest}", first.to_ascii_lowercase());
    [
        (name.to_owned(), prototype.clone(), Starts::Blocking),
        (begun, prototype.with(&[request]), Starts::Begun),
        (
            format!("{name}_init"),
            prototype.with(&[("Info", "info"), request]),
            Starts::Prepared,
        ),
    ]
}
