//! What stands between `%{` and `}%`: Python in the original; here `assert` with expressions over numbers and the fields of TCP_INFO.

/// Names and their values.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<i64>;

/// Check all assertions of a block. What is wrong, if something is.
pub fn check(text: &str, lookup: Lookup) -> Result<(), String> {
    for line in text.split(['\n', ';']) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') || line.starts_with("print") {
            continue;
        }
        let Some(expression) = line.strip_prefix("assert") else {
            return Err(format!("expected assert, saw {line:?}"));
        };
        let mut reader = Reader {
            tokens: tokens(expression)?,
            at: 0,
            lookup,
        };
        let value = reader.either()?;
        match reader.peek() {
            "" | "," => {}
            other => return Err(format!("{line}: unexpected {other:?}")),
        }
        if value == 0 {
            let mut seen = String::new();
            for token in &reader.tokens {
                if let Some(value) = lookup(token).filter(|_| token.starts_with("tcpi_")) {
                    seen.push_str(&format!(" {token} is {value}"));
                }
            }
            return Err(format!("{line}:{seen}"));
        }
    }
    Ok(())
}

fn tokens(text: &str) -> Result<Vec<String>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = if word(first) {
            rest.find(|c| !word(c)).unwrap_or(rest.len())
        } else if ["==", "!=", "<=", ">=", "//"]
            .iter()
            .any(|two| rest.starts_with(two))
        {
            2
        } else if "<>+-*/%&|()',\"".contains(first) {
            1
        } else {
            return Err(format!("{text}: unexpected {first:?}"));
        };
        tokens.push(rest[..length].to_string());
        // The message behind the comma is not looked at.
        if first == ',' {
            break;
        }
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

struct Reader<'a> {
    tokens: Vec<String>,
    at: usize,
    lookup: Lookup<'a>,
}

impl Reader<'_> {
    fn peek(&self) -> &str {
        self.tokens.get(self.at).map_or("", String::as_str)
    }

    fn take(&mut self, token: &str) -> bool {
        let there = self.peek() == token;
        self.at += usize::from(there);
        there
    }

    fn either(&mut self) -> Result<i64, String> {
        let mut value = self.both()?;
        while self.take("or") {
            let other = self.both()?;
            value = i64::from(value != 0 || other != 0);
        }
        Ok(value)
    }

    fn both(&mut self) -> Result<i64, String> {
        let mut value = self.not()?;
        while self.take("and") {
            let other = self.not()?;
            value = i64::from(value != 0 && other != 0);
        }
        Ok(value)
    }

    fn not(&mut self) -> Result<i64, String> {
        if self.take("not") {
            return Ok(i64::from(self.not()? == 0));
        }
        self.comparison()
    }

    /// a < b <= c is both, as in Python.
    fn comparison(&mut self) -> Result<i64, String> {
        let mut left = self.bits()?;
        let mut value = None;
        loop {
            let operator = self.peek().to_string();
            if !["==", "!=", "<", "<=", ">", ">="].contains(&operator.as_str()) {
                return Ok(value.unwrap_or(left));
            }
            self.at += 1;
            let right = self.bits()?;
            let holds = match operator.as_str() {
                "==" => left == right,
                "!=" => left != right,
                "<" => left < right,
                "<=" => left <= right,
                ">" => left > right,
                _ => left >= right,
            };
            value = Some(value.unwrap_or(1) & i64::from(holds));
            left = right;
        }
    }

    fn bits(&mut self) -> Result<i64, String> {
        let mut value = self.sum()?;
        loop {
            if self.take("&") {
                value &= self.sum()?;
            } else if self.take("|") {
                value |= self.sum()?;
            } else {
                return Ok(value);
            }
        }
    }

    fn sum(&mut self) -> Result<i64, String> {
        let mut value = self.product()?;
        loop {
            if self.take("+") {
                value = value.wrapping_add(self.product()?);
            } else if self.take("-") {
                value = value.wrapping_sub(self.product()?);
            } else {
                return Ok(value);
            }
        }
    }

    fn product(&mut self) -> Result<i64, String> {
        let mut value = self.single()?;
        loop {
            let operator = self.peek().to_string();
            if !["*", "/", "//", "%"].contains(&operator.as_str()) {
                return Ok(value);
            }
            self.at += 1;
            let right = self.single()?;
            value = match operator.as_str() {
                "*" => Some(value.wrapping_mul(right)),
                "%" => value.checked_rem(right),
                _ => value.checked_div(right),
            }
            .ok_or("a division by zero")?;
        }
    }

    fn single(&mut self) -> Result<i64, String> {
        if self.take("-") {
            return Ok(-self.single()?);
        }
        if self.take("(") {
            let value = self.either()?;
            return match self.take(")") {
                true => Ok(value),
                false => Err("a bracket is not closed".into()),
            };
        }
        let token = self.peek().to_string();
        self.at += 1;
        if self.peek() == "(" && token == "abs" {
            return Ok(self.single()?.abs());
        }
        let number = match token.strip_prefix("0x") {
            Some(hex) => i64::from_str_radix(hex, 16).ok(),
            None => token.parse().ok(),
        };
        number
            .or_else(|| (self.lookup)(&token))
            .ok_or(format!("what is {token:?}?"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions() {
        let lookup = |name: &str| (name == "tcpi_rtt").then_some(100);
        for good in [
            "assert tcpi_rtt == 100, tcpi_rtt",
            "assert 90 <= tcpi_rtt < 101 and not tcpi_rtt == 3",
            "\n# remark\nassert tcpi_rtt * 2 + 1 == 201; assert (tcpi_rtt & 0x4) == 4",
            "assert abs(tcpi_rtt - 200) == 100 or 1 / 0 == 1 - 1",
        ] {
            let verdict = check(good, &lookup);
            if good.contains("/ 0") {
                assert!(verdict.is_err());
            } else {
                assert_eq!(verdict, Ok(()), "{good}");
            }
        }
        assert_eq!(
            check("assert tcpi_rtt > 100", &lookup),
            Err("assert tcpi_rtt > 100: tcpi_rtt is 100".into())
        );
        for bad in [
            "x = 1",
            "assert (1",
            "assert tcpi_nothing",
            "assert 1 1",
            "assert $",
        ] {
            assert!(check(bad, &lookup).is_err(), "{bad}");
        }
    }
}
