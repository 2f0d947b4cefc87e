//! How long a service asks to wait.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::body::ErrorBody;

/// No wait is longer: what is above it is a mistake of the server.
const LONGEST: Duration = Duration::from_secs(30 * 24 * 3600);

/// A header's value, by its name in lower case.
pub(super) fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers
        .iter()
        .find(|(key, _)| key.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.trim())
}

/// The wait an answer asks for, in the order in which the official clients trust its sources.
pub(super) fn retry_after(
    headers: &[(String, String)],
    error: &ErrorBody,
    now: SystemTime,
) -> Option<Duration> {
    let header = |name: &str| header(headers, name);
    // A server's dates are read against its own clock.
    let now = header("date").and_then(http_date).unwrap_or(now);
    let from_now = |time: SystemTime| time.duration_since(now).unwrap_or_default();
    let millis = |text: &str| seconds(text, 1000.0);
    header("retry-after-ms")
        .and_then(millis)
        .or_else(|| {
            let value = header("retry-after")?;
            seconds(value, 1.0).or_else(|| http_date(value).map(from_now))
        })
        .or_else(|| error.retry_delay.as_deref().and_then(go_duration))
        .or_else(|| {
            let kinds = ["requests", "tokens", "input-tokens", "output-tokens"];
            latest(kinds.map(|kind| {
                let name = |what: &str| format!("anthropic-ratelimit-{kind}-{what}");
                let empty = header(&name("remaining")) == Some("0");
                let reset = empty.then(|| header(&name("reset"))).flatten()?;
                rfc3339(reset).map(from_now)
            }))
        })
        .or_else(|| {
            latest(["requests", "tokens"].map(|kind| {
                let name = |what: &str| format!("x-ratelimit-{what}-{kind}");
                let empty = header(&name("remaining")) == Some("0");
                let reset = empty.then(|| header(&name("reset"))).flatten()?;
                go_duration(reset)
            }))
        })
        .or_else(|| in_words(error.message.as_deref()?))
        .or_else(|| in_words(error.upstream.as_deref()?))
        .map(|wait| wait.min(LONGEST))
}

fn latest<const N: usize>(waits: [Option<Duration>; N]) -> Option<Duration> {
    waits.into_iter().flatten().max()
}

/// A number of seconds, or of parts of a second.
fn seconds(text: &str, parts: f64) -> Option<Duration> {
    let number: f64 = text.parse().ok()?;
    Duration::try_from_secs_f64(number / parts).ok()
}

/// "try again in 11.054s", "retry in 640ms".
fn in_words(message: &str) -> Option<Duration> {
    let lower = message.to_ascii_lowercase();
    let (_, rest) = lower
        .split_once("try again in ")
        .or_else(|| lower.split_once("retry in "))?;
    let text = rest.split_whitespace().next()?.trim_end_matches(['.', ',']);
    go_duration(text).or_else(|| {
        // "in 5 seconds"
        let unit = rest.split_whitespace().nth(1)?;
        let scale = match unit.trim_end_matches(['.', ',', 's']) {
            "second" => 1.0,
            "minute" => 60.0,
            "hour" => 3600.0,
            _ => return None,
        };
        seconds(text, 1.0 / scale)
    })
}

/// A duration as Go writes it: `6m0s`, `6.5s`, `20ms`.
fn go_duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut total = Duration::ZERO;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at_checked(digits)?;
        let letters = tail
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at_checked(letters)?;
        let seconds = match unit {
            "d" => 86400.0,
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        let number: f64 = number.parse().ok()?;
        // Whole microseconds: a float's last digit is no time.
        let micros = (number * seconds * 1e6).round() / 1e6;
        total = total.checked_add(Duration::try_from_secs_f64(micros).ok()?)?;
        rest = tail;
    }
    Some(total)
}

/// An HTTP date in the only form that is still sent (RFC 9110, IMF-fixdate).
fn http_date(text: &str) -> Option<SystemTime> {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let (_, date) = text.split_once(", ")?;
    let mut words = date.split(' ');
    let day = words.next()?.parse().ok()?;
    let name = words.next()?;
    let month = MONTHS.iter().position(|month| *month == name)? as u64 + 1;
    let year = words.next()?.parse().ok()?;
    let time = words.next()?;
    (words.next()? == "GMT").then(|| moment(year, month, day, time))?
}

/// A time as RFC 3339 writes it.
fn rfc3339(text: &str) -> Option<SystemTime> {
    let date = text.get(..10)?;
    let mut numbers = date.split('-');
    let year = numbers.next()?.parse().ok()?;
    let month = numbers.next()?.parse().ok()?;
    let day = numbers.next()?.parse().ok()?;
    let time = moment(year, month, day, text.get(11..19)?)?;
    let rest = text
        .get(19..)?
        .trim_start_matches(|c: char| c == '.' || c.is_ascii_digit());
    let fraction = text.get(19..)?.strip_suffix(rest)?;
    let fraction: f64 = format!("0{fraction}").parse().unwrap_or(0.0);
    let time = time.checked_add(Duration::try_from_secs_f64(fraction).ok()?)?;
    let offset = |text: &str| {
        let (hours, minutes) = text.split_once(':')?;
        let minutes = hours.parse::<u64>().ok()? * 60 + minutes.parse::<u64>().ok()?;
        (minutes < 24 * 60).then(|| Duration::from_secs(minutes * 60))
    };
    match rest.split_at_checked(1)? {
        ("Z" | "z", "") => Some(time),
        ("+", rest) => time.checked_sub(offset(rest)?),
        ("-", rest) => time.checked_add(offset(rest)?),
        _ => None,
    }
}

/// A moment of the Gregorian calendar in UTC, from 1970 on.
fn moment(year: u64, month: u64, day: u64, time: &str) -> Option<SystemTime> {
    let mut numbers = time.split(':').map(|number| number.parse::<u64>().ok());
    let (hour, minute, second) = (numbers.next()??, numbers.next()??, numbers.next()??);
    let sound = (1970..10_000).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    if !sound {
        return None;
    }
    // Days since 1970 by counting years from March, so that a leap day is a year's last.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1;
    let days = days.checked_sub(719_468)?;
    let seconds = days * 86_400 + hour * 3600 + minute * 60 + second;
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unix(time: SystemTime) -> f64 {
        time.duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
    }

    #[test]
    fn dates_are_read() {
        assert_eq!(
            http_date("Thu, 01 Jan 1970 00:00:00 GMT").map(unix),
            Some(0.0)
        );
        assert_eq!(
            http_date("Thu, 29 Feb 2024 12:00:00 GMT").map(unix),
            Some(1_709_208_000.0)
        );
        assert_eq!(
            rfc3339("2000-03-01T00:00:00Z").map(unix),
            Some(951_868_800.0)
        );
        assert_eq!(
            rfc3339("2026-10-21T07:28:00.5+02:00").map(unix),
            Some(1_792_560_480.5)
        );
        for wrong in [
            "",
            "soon",
            "2026-13-01T00:00:00Z",
            "2026-10-21T07:28:00",
            "é026-10-21",
        ] {
            assert_eq!(rfc3339(wrong), None, "{wrong}");
            assert_eq!(http_date(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn durations_are_read() {
        let millis = |text| go_duration(text).map(|d| d.as_millis());
        assert_eq!(millis("6m0s"), Some(360_000));
        assert_eq!(millis("11.054s"), Some(11_054));
        assert_eq!(millis("1h2m3s4ms"), Some(3_723_004));
        assert_eq!(millis(""), None);
        assert_eq!(millis("7"), None);
        assert_eq!(millis("7 parsecs"), None);
    }
}
