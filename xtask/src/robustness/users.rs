//! Users: files that are wrong, reloaded and written, rules that contradict, and very many users.

use super::expect;
use super::start::refuses;
use crate::fail::Result;
use crate::server::{Program, Server, scratch_dir};
use crate::wire::{Client, Value};

/// Users of the test with very many.
const MANY: usize = 10_000;

/// A wrong file or line: no start, and the line is named.
pub fn wrong_files(program: &Program) -> Result<()> {
    let dir = scratch_dir("wrong-users")?;
    let (file, config) = (dir.join("users.acl"), dir.join("bad.conf"));
    let (file_name, config_name) =
        (file.to_string_lossy().into_owned(), config.to_string_lossy().into_owned());
    for (text, says) in [
        ("user a on\nuser b on nope\n", ":2: Syntax error"),
        ("user a on\n\nhello\n", ":3 should start with user keyword"),
        ("user a on\nuser a off\n", "Duplicate user 'a' found on line 2"),
        ("user a (+get\n", ":1: Unmatched parenthesis"),
        ("user a on +nope\n", ":1: Error in applying operation '+nope'"),
        ("user a #abc\n", ":1: The password hash must be exactly 64"),
    ] {
        std::fs::write(&file, text)?;
        refuses(program, &["--port", "0", "--unixsocket", "s", "--aclfile", &file_name], &[says])?;
    }
    std::fs::remove_file(&file)?;
    refuses(program, &["--port", "0", "--unixsocket", "s", "--aclfile", &file_name], &["No such file"])?;
    for (text, says) in [
        ("timeout 5\nuser a on nope\n", "at line 2"),
        ("user a on\nuser a off\n", "Duplicate user found"),
        ("user a (+get\n", "at line 1"),
        ("user\n", "wrong number of arguments"),
    ] {
        std::fs::write(&config, text)?;
        refuses(program, &[&config_name], &[says])?;
    }
    std::fs::write(&file, "user a on\n")?;
    std::fs::write(&config, "port 0\nunixsocket s\nuser b on\n")?;
    let both = if matches!(program, Program::Darter(_)) { "aclfile" } else { "ACL file" };
    refuses(program, &[&config_name, "--aclfile", &file_name], &[both])?;
    std::fs::remove_dir_all(dir)?;
    Ok(())
}

fn lines(client: &mut Client) -> Result<Vec<String>> {
    Ok(client.line("ACL LIST")?.items().iter().map(|line| line.text()).collect())
}

/// LOAD takes a file as a whole or not at all, its clients get their new users, and SAVE writes what LOAD reads.
pub fn files(program: &Program) -> Result<()> {
    let dir = scratch_dir("users")?;
    let file = dir.join("users.acl");
    std::fs::write(&file, "user a on nopass ~a* +@all\nuser gone on nopass +@all\n")?;
    let server = Server::start(program, &["--aclfile", &file.to_string_lossy()])?;
    let (mut admin, mut a, mut gone) = (server.client()?, server.client()?, server.client()?);
    expect(a.line("AUTH a x")?, "OK")?;
    expect(gone.line("AUTH gone x")?, "OK")?;
    expect(a.line("SET a1 v")?, "OK")?;
    let before = lines(&mut admin)?;
    std::fs::write(&file, "user a on nopass ~b* +@all\nuser b on foo\n")?;
    let reply = admin.line("ACL LOAD")?;
    if !reply.render().contains("users.acl:2: Syntax error") || lines(&mut admin)? != before {
        return Err(format!("a bad file: {}", reply.render()).into());
    }
    expect(a.line("GET a1")?, "\"v\"")?;
    std::fs::write(&file, "user a on nopass ~b* +@all\nuser new on >p +@read (~x +set)\n")?;
    expect(admin.line("ACL LOAD")?, "OK")?;
    if !a.line("GET a1")?.is_error() || gone.receive_or_closed()? != Value::Closed {
        return Err("clients keep what the new file takes from them".into());
    }
    expect(admin.line("ACL SETUSER more on ~k:* resetchannels &c %R~r db=0,1")?, "OK")?;
    let before = lines(&mut admin)?;
    for _ in 0..20 {
        expect(admin.line("ACL SAVE")?, "OK")?;
    }
    if std::fs::read_to_string(&file)? != before.join("\n") + "\n" || std::fs::read_dir(&dir)?.count() != 1 {
        return Err("the file is not what ACL LIST shows, or something else is left beside it".into());
    }
    expect(admin.line("ACL LOAD")?, "OK")?;
    if lines(&mut admin)? != before {
        return Err("what was saved is loaded as something else".into());
    }
    std::fs::remove_dir_all(&dir)?;
    if !admin.line("ACL SAVE")?.is_error()
        || !admin.line("ACL LOAD")?.is_error()
        || lines(&mut admin)? != before
    {
        return Err("a file that cannot be written or read is no error".into());
    }
    Ok(())
}

/// Very many users and rules, made and deleted while clients of some of them work.
pub fn very_many(program: &Program) -> Result<()> {
    let server = Server::start(program, &[] as &[&str])?;
    let (mut admin, mut worker) = (server.client()?, server.client()?);
    for at in 0..MANY {
        let name = format!("user:{at}");
        admin.send(&["ACL", "SETUSER", &name, "on", "nopass", "+@all", &format!("~{at}:*"), "&c"])?;
    }
    for _ in 0..MANY {
        expect(admin.receive()?, "OK")?;
    }
    expect(worker.line("AUTH user:77 x")?, "OK")?;
    expect(worker.line("SET 77:a v")?, "OK")?;
    if !worker.line("GET 78:a")?.is_error() || lines(&mut admin)?.len() != MANY + 1 {
        return Err("rules or users are missing".into());
    }
    let rules: Vec<String> =
        (0..MANY).map(|at| format!("~{}{at}", if at % 2 == 0 { "literal" } else { "*glob" })).collect();
    let mut words = vec!["ACL".to_owned(), "SETUSER".to_owned(), "user:77".to_owned()];
    words.extend(rules);
    expect(admin.call(&words)?, "OK")?;
    expect(worker.line("SET literal9998 v")?, "OK")?;
    expect(worker.line("SET x-glob9999 v")?, "OK")?;
    if !worker.line("GET literal10000")?.is_error() {
        return Err("a key is allowed that no pattern fits".into());
    }
    let mut words = vec!["ACL".to_owned(), "DELUSER".to_owned()];
    words.extend((0..MANY).map(|at| format!("user:{at}")));
    expect(admin.call(&words)?, &format!("(integer) {MANY}"))?;
    if worker.receive_or_closed()? != Value::Closed || lines(&mut admin)?.len() != 1 {
        return Err("deleted users are still there".into());
    }
    Ok(())
}
