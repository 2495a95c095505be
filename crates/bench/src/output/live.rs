//! The live page of a run on a terminal: throughput, latencies and a sparkline per command, the server, the client, the errors, the time
//! left. It reads no keys, so Ctrl-C stays a signal; what is typed meanwhile is not echoed.

use std::io;
use std::time::{Duration, Instant};

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::{cursor, execute, terminal};
use ratatui::layout::{Constraint, Layout, Rect, Size};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Gauge, Paragraph, RenderDirection, Sparkline};
use ratatui::{Frame, Terminal, TerminalOptions, Viewport};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use super::table;
use crate::record::{Figures, Run, ServerSample};
use crate::units::{bytes, clock, grouped, nanos, short};
use crate::watch::{Progress, Watch};

/// Pages per second: often enough to look alive, seldom enough to cost nothing.
const PAUSE: Duration = Duration::from_millis(200);
/// Colours of commands, in their order; readable on dark and on light ground.
const COLOURS: [Color; 6] =
    [Color::Blue, Color::Yellow, Color::Green, Color::Magenta, Color::Cyan, Color::LightRed];
/// Errors that are listed.
const ERRORS_SHOWN: usize = 5;

/// The page, and the terminal as it was before.
pub struct Page {
    terminal: Terminal<CrosstermBackend<io::Stdout>>,
    size: Size,
    before: Option<Termios>,
    is_open: bool,
    drawn: Option<Instant>,
}

impl Page {
    /// Takes the terminal. An error means that there is none that can show it.
    pub fn open() -> io::Result<Self> {
        let (terminal, size) = blank()?;
        let mut page = Self { terminal, size, before: None, is_open: false, drawn: None };
        page.enter()?;
        Ok(page)
    }

    fn enter(&mut self) -> io::Result<()> {
        if let Ok(before) = tcgetattr(io::stdin()) {
            let mut silent = before.clone();
            silent.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON);
            if tcsetattr(io::stdin(), OptionalActions::Now, &silent).is_ok() {
                self.before = Some(before);
            }
        }
        self.is_open = true;
        execute!(io::stdout(), terminal::EnterAlternateScreen, cursor::Hide)?;
        self.begin_anew()
    }

    /// Wipes the page: for another run, or another size of the terminal.
    fn begin_anew(&mut self) -> io::Result<()> {
        execute!(io::stdout(), terminal::Clear(terminal::ClearType::All))?;
        (self.terminal, self.size) = blank()?;
        Ok(())
    }

    fn leave(&mut self) {
        if !std::mem::replace(&mut self.is_open, false) {
            return;
        }
        // Whatever fails here, there is no terminal left to tell it to.
        let _ = execute!(io::stdout(), terminal::LeaveAlternateScreen, cursor::Show);
        if let Some(before) = self.before.take() {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
        }
    }

    fn show(&mut self, run: &Run, progress: Progress) {
        // A terminal that went away must not end the run.
        if terminal_size().is_ok_and(|size| size != self.size) {
            let _ = self.begin_anew();
        }
        let _ = self.terminal.draw(|frame| draw(frame, run, progress));
        self.drawn = Some(Instant::now());
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Watch for Page {
    fn began(&mut self, run: &Run) {
        let _ = if self.is_open { self.begin_anew() } else { self.enter() };
        self.show(run, Progress::default());
    }

    fn goes_on(&mut self, run: &Run, progress: Progress) {
        if self.drawn.is_none_or(|drawn| drawn.elapsed() >= PAUSE) {
            self.show(run, progress);
        }
    }

    fn ended(&mut self, run: &Run) {
        self.leave();
        if run.is_preparation() {
            println!("{}\n", table::one_line(run));
        } else {
            println!("{}", table::summary(run));
        }
    }
}

/// A page with nothing on it, as large as the terminal. Its size is fixed: to clear itself after a change, it would ask the terminal where
/// the cursor is, and wait for the answer among what is typed.
fn blank() -> io::Result<(Terminal<CrosstermBackend<io::Stdout>>, Size)> {
    let size = terminal_size()?;
    let area = Rect::new(0, 0, size.width, size.height);
    let options = TerminalOptions { viewport: Viewport::Fixed(area) };
    Ok((Terminal::with_options(CrosstermBackend::new(io::stdout()), options)?, size))
}

fn terminal_size() -> io::Result<Size> {
    let (width, height) = terminal::size()?;
    Ok(Size { width, height })
}

/// Draws the page of a run.
fn draw(frame: &mut Frame, run: &Run, progress: Progress) {
    let errors = run.errors.len().min(ERRORS_SHOWN) as u16;
    let rows = Layout::vertical([
        Constraint::Length(3),
        Constraint::Length(1),
        Constraint::Min(3 * run.commands.len() as u16),
        Constraint::Length(5),
        Constraint::Length(if errors > 0 { errors + 1 } else { 0 }),
    ])
    .split(frame.area());
    draw_heading(frame, rows[0], run, progress);
    frame.render_widget(Paragraph::new(now(run)), rows[1]);
    draw_commands(frame, rows[2], run);
    draw_servers(frame, rows[3], run);
    let errors = run.errors.iter().take(ERRORS_SHOWN);
    let lines: Vec<Line> =
        errors.map(|(text, count)| Line::from(format!(" {} x {text}", grouped(*count))).red()).collect();
    frame.render_widget(Paragraph::new(lines), rows[4]);
}

fn draw_heading(frame: &mut Frame, area: Rect, run: &Run, progress: Progress) {
    let title = format!(" darter-bench: {} against {} ", run.test, run.target.name);
    let left = match (progress.warming_up, progress.left) {
        (true, _) => "warming up".to_string(),
        (false, Some(left)) => format!("{} left", clock(left)),
        (false, None) => format!("{} so far", clock(Duration::from_secs(run.seconds() as u64))),
    };
    let gauge = Gauge::default()
        .block(Block::bordered().title(title))
        .gauge_style(Style::new().fg(Color::Blue))
        .ratio(progress.done.unwrap_or(0.0).clamp(0.0, 1.0))
        .label(left);
    frame.render_widget(gauge, area);
}

/// The second that was completed last, all commands together.
fn now(run: &Run) -> Line<'static> {
    let last = |figures: &Figures| figures.seconds.last().map_or(0, |second| second.counts.requests);
    let now: u64 = run.commands.iter().map(last).sum();
    let total = run.total();
    let mean = total.requests as f64 / (run.seconds().max(1)) as f64;
    let mut spans = vec![
        Span::styled(
            format!(" {} requests/s now", short(now as f64)),
            Style::new().add_modifier(Modifier::BOLD),
        ),
        Span::raw(format!(", {}/s so far, {} in all, ", short(mean), grouped(total.requests))),
    ];
    spans.push(match total.errors {
        0 => Span::raw("no errors"),
        errors => Span::styled(format!("{} errors", grouped(errors)), Style::new().red()),
    });
    Line::from(spans)
}

/// A line of figures and a sparkline for each command that there is room for.
fn draw_commands(frame: &mut Frame, area: Rect, run: &Run) {
    let fitting = (area.height / 3).max(1) as usize;
    let shown = run.commands.len().clamp(1, fitting);
    let areas = Layout::vertical(vec![Constraint::Fill(1); shown]).split(area);
    for (index, (figures, area)) in run.commands.iter().zip(areas.iter()).enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let series: Vec<u64> = figures.seconds.iter().rev().map(|second| second.counts.requests).collect();
        let block = Block::new().title(Line::from(vec![
            Span::styled(format!(" {} ", figures.name), Style::new().fg(colour).add_modifier(Modifier::BOLD)),
            Span::raw(figures_line(figures)),
        ]));
        let sparkline = Sparkline::default()
            .block(block)
            .data(&series)
            .direction(RenderDirection::RightToLeft)
            .style(Style::new().fg(colour));
        frame.render_widget(sparkline, *area);
    }
}

fn figures_line(figures: &Figures) -> String {
    let Some(second) = figures.seconds.last() else { return String::new() };
    let at = &second.corrected;
    let rate = short(second.counts.requests as f64);
    if second.counts.requests == 0 {
        return "no reply in the last second".into();
    }
    let latency = |name: &str, ns: u64| format!("  {name} {}", nanos(ns as f64));
    let mut text = format!("{rate}/s");
    text += &[("p50", at.p50), ("p99", at.p99), ("p99.9", at.p999), ("max", at.max)]
        .map(|(name, ns)| latency(name, ns))
        .concat();
    if let Some(sent) = &second.uncorrected {
        text += &format!("  (since sent: p99 {})", nanos(sent.p99 as f64));
    }
    text
}

fn draw_servers(frame: &mut Frame, area: Rect, run: &Run) {
    let mut lines = match (run.samples.last(), run.server()) {
        (Some(_), Some(used)) => {
            let cpu = processor_now(&run.samples).map_or(String::new(), |(busy, each)| {
                format!("{busy:.2} processors busy, {each:.2} us per command, ")
            });
            let entry = used
                .bytes_per_entry()
                .map_or(String::new(), |each| format!(" {} keys of {each:.0} bytes,", grouped(used.keys)));
            let memory =
                format!("used_memory {}, RSS {}", bytes(used.used_memory as f64), bytes(used.rss as f64));
            let events = format!(
                "{entry} {} evicted, {} expired, {} error replies",
                grouped(used.evicted),
                grouped(used.expired),
                grouped(used.errors)
            );
            vec![Line::from(format!(" {cpu}{memory}")), Line::from(events)]
        }
        _ => vec![Line::from(" the server has not told anything yet")],
    };
    if !run.client.cpu.is_zero() {
        let text = format!(" this client's busiest thread: {:.0} %", 100.0 * run.client.busiest);
        lines.push(match run.client.was_the_limit() {
            true => Line::from(text + ", so the client is the limit, not the server").red(),
            false => Line::from(text),
        });
    }
    let version = if run.target.version.is_empty() { "server" } else { &run.target.version };
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(format!(" {version} "))), area);
}

/// Processors busy, and microseconds per command, between the last two samples of each node.
fn processor_now(samples: &[ServerSample]) -> Option<(f64, f64)> {
    let nodes = samples.iter().map(|sample| sample.node).max()? + 1;
    let (mut busy, mut cpu_us, mut commands) = (0.0, 0.0, 0);
    for node in 0..nodes {
        let mut of_node = samples.iter().rev().filter(|sample| sample.node == node);
        let (last, before) = (of_node.next()?, of_node.next()?);
        let cpu = last.cpu.saturating_sub(before.cpu).as_secs_f64();
        busy += cpu / (last.at_s - before.at_s).max(1e-3);
        cpu_us += cpu * 1e6;
        commands += last.commands.saturating_sub(before.commands);
    }
    (commands > 0 && cpu_us > 0.0).then(|| (busy, cpu_us / commands as f64))
}

#[cfg(test)]
mod tests {
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::synthetic;

    fn page(run: &Run, progress: Progress, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, run, progress)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let rows = buffer.content.chunks(width as usize);
        rows.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>() + "\n").collect()
    }

    #[test]
    fn the_page_has_all_figures() {
        let mut run = synthetic::run("here", 30, true);
        run.client.busiest = 0.95;
        let progress = Progress { done: Some(0.5), left: Some(Duration::from_secs(90)), warming_up: false };
        let text = page(&run, progress, 110, 24);
        for wanted in [
            "darter-bench: mixed against here",
            "1:30 left",
            "2.00k requests/s now",
            "2 errors",
            "SET 500/s  p50 ",
            "(since sent: p99 ",
            "0.00 processors busy, 1.00 us per command, used_memory 3.93 MiB",
            "the client is the limit",
            "2 x ERR <no>",
            "█",
        ] {
            assert!(text.contains(wanted), "{wanted}\n{text}");
        }
    }

    #[test]
    fn small_terminals_and_empty_runs_are_no_trouble() {
        let mut run = synthetic::run("here", 3, false);
        for (width, height) in [(1, 1), (20, 5), (40, 10), (300, 100)] {
            page(&run, Progress::default(), width, height);
        }
        run.commands.clear();
        run.samples.clear();
        let text = page(&run, Progress { warming_up: true, ..Progress::default() }, 80, 24);
        assert!(text.contains("warming up"), "{text}");
    }
}
