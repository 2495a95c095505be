//! The map of a cluster, or of a primary with its replicas: which node owns which slots, and which connections go where. Reads it; follows
//! redirections by reading it again.

use crate::client::{Address, Client, Value, refused};
use crate::fault::{Fault, Result};
use crate::plan::Replicas;
use crate::workload::{Half, Order, Test};

/// A node that serves slots.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    pub address: Address,
    /// Those of its primary, for a replica.
    pub slots: Vec<u16>,
    pub replica: bool,
}

/// Asks a node for the map: primaries in the order of their slots, then replicas.
pub fn members(client: &mut Client, asked: &Address) -> Result<Vec<Member>> {
    let map = match client.call(&["CLUSTER", "SLOTS"])? {
        Value::Error(text) if text.contains("cluster support disabled") => {
            return Err(Fault::new(format!("{asked} is not part of a cluster: leave out --cluster")));
        }
        Value::Error(text) => return Err(refused(asked, "CLUSTER SLOTS", &text)),
        map => map,
    };
    let members = read(&map, asked).ok_or_else(|| {
        Fault::new(format!("{asked} answers CLUSTER SLOTS with something else than a map of slots"))
    })?;
    if members.is_empty() {
        return Err(Fault::new(format!(
            "the cluster of {asked} has no slots: assign them first, as with valkey-cli --cluster create"
        )));
    }
    Ok(members)
}

/// Reads `[[first, last, [host, port, ...], [replica's host, port, ...], ...], ...]`.
fn read(map: &Value, asked: &Address) -> Option<Vec<Member>> {
    let Value::List(ranges) = map else { return None };
    let mut members: Vec<Member> = Vec::new();
    for range in ranges {
        let Value::List(range) = range else { return None };
        let [Value::Number(first), Value::Number(last), nodes @ ..] = &range[..] else { return None };
        let slots = u16::try_from(*first).ok()?..=u16::try_from(*last).ok().filter(|last| *last < 16_384)?;
        for (place, node) in nodes.iter().enumerate() {
            let Value::List(node) = node else { return None };
            let Some(Value::Number(port)) = node.get(1) else { return None };
            let address = address(node.first()?, u16::try_from(*port).ok()?, asked);
            let known = members.iter().position(|member| member.address == address);
            let known = known.unwrap_or_else(|| {
                members.push(Member { address, slots: Vec::new(), replica: place > 0 });
                members.len() - 1
            });
            members[known].slots.extend(slots.clone());
        }
    }
    members.sort_by_key(|member| (member.replica, member.slots.first().copied()));
    Some(members)
}

/// Asks a primary outside a cluster for its replicas: itself first.
pub fn replication(client: &mut Client, asked: &Address) -> Result<Vec<Member>> {
    let role = match client.call(&["ROLE"])? {
        Value::Error(text) => return Err(refused(asked, "ROLE", &text)),
        role => role,
    };
    read_role(&role, asked)
}

/// Reads `["master", offset, [[host, port, offset], ...]]`.
fn read_role(role: &Value, asked: &Address) -> Result<Vec<Member>> {
    let alien = || Fault::new(format!("{asked} answers ROLE with something else than the role of a server"));
    let Value::List(role) = role else { return Err(alien()) };
    if role.first().and_then(Value::text).as_deref() == Some("slave") {
        return Err(Fault::new(format!("{asked} is a replica: give the address of its primary")));
    }
    let [_, _, Value::List(replicas)] = &role[..] else { return Err(alien()) };
    let mut members = vec![Member { address: asked.clone(), slots: Vec::new(), replica: false }];
    for replica in replicas {
        let Value::List(replica) = replica else { return Err(alien()) };
        let port = replica.get(1).and_then(Value::text).and_then(|port| port.parse().ok());
        let (Some(host), Some(port)) = (replica.first(), port) else { return Err(alien()) };
        members.push(Member { address: address(host, port, asked), slots: Vec::new(), replica: true });
    }
    Ok(members)
}

/// A node that does not know its own host is where it was asked.
fn address(host: &Value, port: u16, asked: &Address) -> Address {
    let own = match asked {
        Address::Tcp { host, .. } => host.clone(),
        Address::Unix(_) => "127.0.0.1".to_string(),
    };
    let host = host.text().filter(|host| !host.is_empty() && host != "?").unwrap_or(own);
    Address::Tcp { host, port }
}

/// Refuses a test whose keys cannot be sent to the right node.
pub fn check(test: &Test) -> Result<()> {
    let lost = test.commands.iter().find(|command| {
        !command.template.has_tag() && !command.template.draws() && command.template.words() > 1
    });
    match lost {
        None => Ok(()),
        Some(command) => Err(Fault::new(format!(
            "{} has the same key always, which belongs to one node: put {{tag}} into the key, or use __key__",
            command.name
        ))),
    }
}

/// For each connection the node that it goes to, as an index into `members`, and what it sends.
pub fn assign(
    members: &[Member],
    replicas: Replicas,
    test: &Test,
    connections: usize,
) -> Result<Vec<(usize, Half)>> {
    let all = 0..members.len();
    let primaries: Vec<usize> = all.clone().filter(|node| !members[*node].replica).collect();
    let readers: Vec<usize> = match replicas {
        Replicas::No => primaries.clone(),
        Replicas::All => all.collect(),
        Replicas::IfAny if primaries.len() == members.len() => primaries.clone(),
        Replicas::Yes | Replicas::IfAny => all.filter(|node| members[*node].replica).collect(),
    };
    if readers.is_empty() {
        return Err(Fault::new(
            "there are no replicas: start some, or say --read-from-replicas if-any, or leave it out",
        ));
    }
    let (reads, total) = weights(test, replicas)?;
    let reading = match reads {
        0 => 0,
        _ if reads == total => connections,
        // Each side has a connection at least.
        _ => ((connections as f64 * reads as f64 / total as f64).round() as usize)
            .clamp(1, connections.saturating_sub(1).max(1)),
    };
    let needed = if replicas == Replicas::No || reads == 0 {
        primaries.len()
    } else if reads == total {
        readers.len()
    } else {
        primaries.len() + readers.len()
    };
    let enough = (reading == 0 || reading >= readers.len())
        && (reading == connections || connections - reading >= primaries.len());
    if connections < needed || replicas != Replicas::No && !enough {
        return Err(Fault::new(format!(
            "{connections} connections are too few to reach each of {} nodes: raise -c",
            members.len()
        )));
    }
    if replicas == Replicas::No {
        return Ok((0..connections).map(|index| (primaries[index % primaries.len()], Half::All)).collect());
    }
    let of_reads = (0..reading).map(|index| (readers[index % readers.len()], Half::Reads));
    let of_writes =
        (0..connections - reading).map(|index| (primaries[index % primaries.len()], Half::Writes));
    Ok(of_reads.chain(of_writes).collect())
}

/// The weight of reads in a test, and of everything.
fn weights(test: &Test, replicas: Replicas) -> Result<(u64, u64)> {
    let weights: Vec<u64> = match &test.order {
        Order::Weighted(weights) => weights.clone(),
        Order::Rounds(_) => test.commands.iter().map(|_| 1).collect(),
    };
    let reads = test
        .commands
        .iter()
        .zip(&weights)
        .filter(|(command, _)| command.is_read)
        .map(|(_, weight)| weight)
        .sum();
    let total = weights.iter().sum();
    if matches!(test.order, Order::Rounds(_)) && replicas != Replicas::No && reads > 0 && reads < total {
        return Err(Fault::new(
            "a sequence of reads and writes cannot be split between nodes: use --command, or leave out --read-from-replicas",
        ));
    }
    Ok((reads, total))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Options;

    fn node(host: &str, port: i64) -> Value {
        Value::List(vec![Value::Text(host.into()), Value::Number(port), Value::Text("id".into())])
    }

    fn map() -> Value {
        let range = |first, last, nodes: &[Value]| {
            Value::List([&[Value::Number(first), Value::Number(last)], nodes].concat())
        };
        Value::List(vec![
            range(8000, 16_383, &[node("10.0.0.2", 2), node("10.0.0.3", 3)]),
            range(0, 99, &[node("", 1)]),
            range(200, 7999, &[node("", 1)]),
        ])
    }

    fn seed() -> Address {
        Address::Tcp { host: "seed".into(), port: 9 }
    }

    fn test(line: &str) -> Test {
        let words = line.split(' ').map(str::to_string).collect();
        Options::parse(words).unwrap().plan("").unwrap().tests.remove(0)
    }

    #[test]
    fn maps_are_read() {
        let members = read(&map(), &seed()).unwrap();
        let shown: Vec<_> =
            members.iter().map(|m| (m.address.to_string(), m.slots.len(), m.replica)).collect();
        let wanted = [("seed:1", 7900, false), ("10.0.0.2:2", 8384, false), ("10.0.0.3:3", 8384, true)];
        assert_eq!(shown, wanted.map(|(address, slots, replica)| (address.to_string(), slots, replica)));
        assert!(read(&Value::Nil, &seed()).is_none());
        assert!(read(&Value::List(vec![Value::List(vec![Value::Number(5)])]), &seed()).is_none());
    }

    #[test]
    fn connections_are_spread() {
        let members = read(&map(), &seed()).unwrap();
        let mixed = test("--cluster --ratio 1:3");
        let nodes = |replicas, connections| -> Vec<usize> {
            assign(&members, replicas, &mixed, connections).unwrap().iter().map(|(node, _)| *node).collect()
        };
        assert_eq!(nodes(Replicas::No, 4), [0, 1, 0, 1]);
        assert_eq!(nodes(Replicas::Yes, 8), [2, 2, 2, 2, 2, 2, 0, 1]);
        assert_eq!(nodes(Replicas::All, 8), [0, 1, 2, 0, 1, 2, 0, 1]);
        assert!(assign(&members, Replicas::No, &mixed, 1).is_err());
        assert!(assign(&members, Replicas::All, &mixed, 4).is_err());
        assert!(
            assign(&members[..2], Replicas::Yes, &mixed, 4).unwrap_err().to_string().contains("no replicas")
        );
        let halves = assign(&members, Replicas::Yes, &mixed, 8).unwrap();
        assert_eq!(halves.iter().filter(|(_, half)| *half == Half::Reads).count(), 6);
    }

    #[test]
    fn a_primary_tells_its_replicas() {
        let text = |text: &str| Value::Text(text.into());
        let role = |replicas| Value::List(vec![text("master"), Value::Number(7), Value::List(replicas)]);
        let replica = Value::List(vec![text("10.0.0.9"), text("7001"), text("5")]);
        let members = read_role(&role(vec![replica]), &seed()).unwrap();
        let shown: Vec<_> = members.iter().map(|m| (m.address.to_string(), m.replica)).collect();
        assert_eq!(shown, [("seed:9".to_string(), false), ("10.0.0.9:7001".to_string(), true)]);
        let mixed = test("--ratio 1:3");
        let routes = assign(&members, Replicas::IfAny, &mixed, 4).unwrap();
        assert_eq!(routes, [(1, Half::Reads), (1, Half::Reads), (1, Half::Reads), (0, Half::Writes)]);
        assert_eq!(assign(&members, Replicas::Yes, &test("-t get"), 2).unwrap()[0].0, 1);
        let alone = read_role(&role(Vec::new()), &seed()).unwrap();
        assert!(assign(&alone, Replicas::Yes, &mixed, 4).unwrap_err().to_string().contains("no replicas"));
        assert!(assign(&alone, Replicas::IfAny, &mixed, 4).unwrap().iter().all(|(node, _)| *node == 0));
        let slave = Value::List(vec![text("slave"), text("h"), Value::Number(1), text("connected")]);
        assert!(read_role(&slave, &seed()).unwrap_err().to_string().contains("its primary"));
        assert!(read_role(&Value::Nil, &seed()).is_err());
    }

    #[test]
    fn keys_must_lead_to_their_nodes() {
        assert!(check(&test("--cluster -t lpush")).is_ok());
        assert!(check(&test("--cluster --ratio 1:1")).is_ok());
        assert!(check(&test("--cluster -t ping_inline")).is_ok());
        assert!(check(&test("--cluster GET fixed")).unwrap_err().to_string().contains("{tag}"));
    }
}
