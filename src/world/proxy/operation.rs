//! What requests do to nodes, and what replies say came of it; of a multi, part by part.

use crate::words::jute::Reader;

/// An operation that a request is, or one of those that a multi consists of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    Create,
    Delete(String),
    SetData(String),
    /// Changes nothing.
    Look,
}

/// What ZooKeeper calls a request; `None` for one that it has no name for.
pub fn name(opcode: i32) -> Option<&'static str> {
    Some(match opcode {
        1 => "create",
        2 => "delete",
        3 => "exists",
        4 => "getData",
        5 => "setData",
        6 => "getACL",
        7 => "setACL",
        8 => "getChildren",
        9 => "sync",
        12 => "getChildren2",
        13 => "check",
        14 => "multi",
        15 => "create2",
        16 => "reconfig",
        17 => "checkWatches",
        18 => "removeWatches",
        19 => "createContainer",
        20 => "deleteContainer",
        21 => "createTTL",
        22 => "multiRead",
        102 => "sasl",
        103 => "getEphemerals",
        104 => "getAllChildrenNumber",
        106 => "addWatch",
        107 => "whoAmI",
        _ => return None,
    })
}

/// The operations of a request and their kinds: of a multi each of its parts, of others one. `None` where they can't be read, as
/// when there is more of them than is kept of a frame.
pub fn operations(opcode: i32, body: &[u8]) -> Option<Vec<(i32, Operation)>> {
    const MULTI: [i32; 2] = [14, 22];
    let mut reader = Reader(body);
    if !MULTI.contains(&opcode) {
        return Some(vec![(opcode, operation(opcode, &mut reader)?)]);
    }
    let mut parts = Vec::new();
    loop {
        match part(&mut reader)? {
            None => return Some(parts),
            Some(opcode) => {
                let what = operation(opcode, &mut reader)?;
                past(opcode, &mut reader)?;
                parts.push((opcode, what));
            }
        }
    }
}

/// The kind of the next part of a multi; nothing inside at the end of the list.
fn part(reader: &mut Reader<'_>) -> Option<Option<i32>> {
    let (opcode, ends, _error) = (reader.int()?, reader.bool()?, reader.int()?);
    Some((!ends).then_some(opcode))
}

/// Reads the path, with which every operation begins.
fn operation(opcode: i32, reader: &mut Reader<'_>) -> Option<Operation> {
    let path = if name(opcode).is_some_and(|name| name != "whoAmI" && name != "sasl") {
        reader.string()?
    } else {
        String::new()
    };
    Some(match opcode {
        1 | 15 | 19 | 21 => Operation::Create,
        2 | 20 => Operation::Delete(path),
        5 => Operation::SetData(path),
        _ => Operation::Look,
    })
}

/// Reads on behind the path of a multi's part, to its end.
fn past(opcode: i32, reader: &mut Reader<'_>) -> Option<()> {
    match opcode {
        1 | 15 | 19 | 21 => {
            perhaps_buffer(reader)?;
            for _ in 0..reader.int()? {
                reader.int()?;
                perhaps_buffer(reader)?;
                perhaps_buffer(reader)?;
            }
            reader.int()?;
            if opcode == 21 {
                reader.long()?;
            }
        }
        2 | 13 => drop(reader.int()?),
        5 => {
            perhaps_buffer(reader)?;
            reader.int()?;
        }
        3 | 4 | 8 | 12 => drop(reader.bool()?),
        _ => return None,
    }
    Some(())
}

/// Reads past a buffer, or past the sign that there is none.
fn perhaps_buffer(reader: &mut Reader<'_>) -> Option<()> {
    let length = reader.int()?;
    usize::try_from(length).map_or(Some(()), |length| reader.bytes(length).map(drop))
}

/// Whether the body of the reply to such a request says that it was refused, as that to a multi does: its header says nothing.
pub fn is_refused(opcode: i32, body: &[u8]) -> bool {
    const ERROR: i32 = -1;
    opcode == 14 && part(&mut Reader(body)) == Some(Some(ERROR))
}

/// The paths of the nodes that were created, in the order of the creates, by the body of the reply to such a request; `None`
/// where it can't be read.
pub fn created(opcode: i32, body: &[u8]) -> Option<Vec<String>> {
    /// The bytes of a node's `Stat`.
    const STAT: usize = 68;
    let mut reader = Reader(body);
    match opcode {
        1 | 15 | 19 | 21 => return Some(vec![reader.string()?]),
        14 => {}
        _ => return Some(Vec::new()),
    }
    let mut paths = Vec::new();
    while let Some(kind) = part(&mut reader)? {
        match kind {
            1 => paths.push(reader.string()?),
            15 | 19 | 21 => {
                paths.push(reader.string()?);
                reader.bytes(STAT)?;
            }
            5 => drop(reader.bytes(STAT)?),
            2 | 13 | 20 => {}
            _ => return None,
        }
    }
    Some(paths)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(text: &str) -> Vec<u8> {
        [&i32::try_from(text.len()).unwrap().to_be_bytes(), text.as_bytes()].concat()
    }

    fn header(opcode: i32) -> Vec<u8> {
        [&opcode.to_be_bytes()[..], &[u8::from(opcode == -1)], &[255; 4]].concat()
    }

    /// One entry, and no data.
    fn create(path: &str) -> Vec<u8> {
        let acl = [&31_i32.to_be_bytes()[..], &text("world"), &text("anyone")].concat();
        [&text(path)[..], &[255; 4], &1_i32.to_be_bytes(), &acl, &3_i32.to_be_bytes()].concat()
    }

    #[test]
    fn a_multi_is_read_part_by_part_to_its_end_and_one_that_is_cut_off_is_not_known() {
        let set = [&text("/q")[..], &text("data"), &[255; 4]].concat();
        let multi = [
            header(1),
            create("/q/n-"),
            header(5),
            set,
            header(13),
            [&text("/q")[..], &[0; 4]].concat(),
            header(2),
            [&text("/q/n-1")[..], &[255; 4]].concat(),
            header(-1),
        ]
        .concat();
        let expected = vec![
            (1, Operation::Create),
            (5, Operation::SetData("/q".into())),
            (13, Operation::Look),
            (2, Operation::Delete("/q/n-1".into())),
        ];
        assert_eq!(operations(14, &multi), Some(expected));
        for cut in 0..multi.len() {
            assert_eq!(operations(14, &multi[..cut]), None, "{cut}");
        }
    }

    #[test]
    fn replies_tell_the_names_of_the_nodes_that_were_made() {
        let reply = [header(1), text("/q/n-7"), header(5), vec![0; 68], header(2), header(-1)].concat();
        assert_eq!(created(14, &reply), Some(vec!["/q/n-7".to_owned()]));
        assert_eq!(created(14, &reply[..20]), None);
        let refused = [&(-1_i32).to_be_bytes()[..], &[0], &[255; 4], &[0; 4], &header(-1)].concat();
        assert!(is_refused(14, &refused) && !is_refused(14, &reply) && !is_refused(1, &refused));
        assert_eq!(created(1, &text("/q/n-8")), Some(vec!["/q/n-8".to_owned()]));
        assert_eq!(created(4, &[]), Some(Vec::new()));
    }

    #[test]
    fn other_requests_are_one_operation() {
        assert_eq!(operations(2, &text("/a")), Some(vec![(2, Operation::Delete("/a".into()))]));
        assert_eq!(operations(4, &[&text("/a")[..], &[1]].concat()), Some(vec![(4, Operation::Look)]));
        assert_eq!(operations(107, &[]), Some(vec![(107, Operation::Look)]));
    }

    proptest! {
        #[test]
        fn garbage_never_panics(garbage in prop::collection::vec(any::<u8>(), 0..200), opcode in -1..25) {
            let _ = (operations(opcode, &garbage), created(opcode, &garbage));
        }
    }
}
