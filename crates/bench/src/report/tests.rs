//! The page is read back as a browser would: every element is closed, nothing comes from elsewhere, what was put in is there.

use super::*;
use crate::synthetic;

/// Elements that have no end.
const VOID: &[&str] = &["meta", "br"];

/// The names of all elements in order, after checking that they are nested.
fn elements(page: &str) -> Vec<String> {
    let body = page.strip_prefix("<!doctype html>\n").expect("a document of today's HTML");
    let (mut open, mut all) = (Vec::new(), Vec::new());
    let mut rest = body;
    while let Some((text, after)) = rest.split_once('<') {
        assert!(!text.contains('>') || open.last() == Some(&"style"), "a loose > in {text}");
        let (tag, after) = after.split_once('>').expect("every tag ends");
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "in {all:?}");
            continue;
        }
        assert!(tag.matches('"').count().is_multiple_of(2), "{tag}");
        let name = tag.split([' ', '/']).next().unwrap_or_default();
        all.push(name.to_string());
        if tag.ends_with('/') || VOID.contains(&name) {
            continue;
        }
        open.push(name);
    }
    assert!(open.is_empty(), "{open:?}");
    all
}

fn assert_alone(page: &str) {
    for word in ["http:", "https:", "src=", "href=", "url(", "@import", "<script", "<link", "<img"] {
        assert!(!page.contains(word), "{word}");
    }
}

#[test]
fn one_run_is_drawn_by_command() {
    for open_loop in [false, true] {
        let page = page(&[synthetic::run("here", 30, open_loop)]);
        let elements = elements(&page);
        // The chart over the whole width is there twice, for wide and for narrow screens.
        assert_eq!(elements.iter().filter(|name| *name == "svg").count(), 6);
        assert_alone(&page);
        for wanted in [
            "Throughput by command",
            "Latency over time",
            "Latency distribution",
            "Memory of the server",
            "Processors that the server keeps busy",
            "prefers-color-scheme: dark",
            "the client, not the server, was the limit",
            "ERR &lt;no&gt; &amp; &quot;such&quot;, thing",
            "darter-bench --ratio 1:3 -d 64",
        ] {
            assert!(page.contains(wanted), "{wanted}");
        }
        assert_eq!(page.contains("since sent"), open_loop);
    }
}

#[test]
fn targets_stand_side_by_side() {
    let runs: Vec<Run> = (0..3)
        .flat_map(|_| [synthetic::run("darter", 5, false), synthetic::run("valkey", 5, false)])
        .collect();
    let page = page(&runs);
    elements(&page);
    assert_alone(&page);
    for wanted in ["darter and valkey", "medians of 3 runs", "more is better", "valkey p99", "1.00 x"] {
        assert!(page.contains(wanted), "{wanted}");
    }
}

#[test]
fn odd_runs_have_a_page() {
    elements(&page(&[]));
    let mut bare = synthetic::run("here", 1, false);
    bare.samples.clear();
    bare.errors.clear();
    elements(&page(&[bare.clone()]));
    bare.commands.truncate(1);
    bare.commands[0].seconds.clear();
    bare.commands[0].corrected.reset();
    elements(&page(&[bare]));
    let mut stalled = synthetic::run("here", 10, true);
    for figures in &mut stalled.commands {
        figures.seconds[4] = Default::default();
    }
    let page_with_gap = page(&[stalled]);
    elements(&page_with_gap);
    assert!(page_with_gap.contains("class=\"band\""));
    let long = page(&[synthetic::run("here", 1000, false)]);
    assert!(long.len() < 400_000, "{} bytes", long.len());
}
