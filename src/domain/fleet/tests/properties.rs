use proptest::prelude::*;

use super::*;

fn tables() -> impl Strategy<Value = Vec<Table>> {
    let poll = (
        0..3_u8,
        0..3_u8,
        0..4_u8,
        0..100_i64,
        proptest::option::of(0..4_u64),
    );
    let table = proptest::collection::vec(poll, 0..20).prop_map(|polls| {
        let mut table = Table::new(ROWS_MAX);
        for (node, server, address, second, index) in polls {
            let millis = second * 1_000;
            let identity = identity(
                &format!("lb-{node}"),
                &format!("web/{server}"),
                &format!("10.0.0.{address}"),
            );
            let told = index.map(|index| told(millis, index));
            table.record(&identity, &Polled::once(at(millis), told));
        }
        table
    });
    proptest::collection::vec(table, 1..4)
}

fn reports(tables: &[Table]) -> Vec<Report> {
    let report =
        |(number, table): (usize, &Table)| report(&format!("replica-{number}"), 100_000, table);
    tables.iter().enumerate().map(report).collect()
}

proptest! {
    #[test]
    fn the_order_of_reports_does_not_matter_nor_one_that_comes_twice(tables in tables()) {
        let all = reports(&tables);
        let merged = Merged::of(all.clone());
        let backwards = all.iter().rev().chain(&all).cloned();
        prop_assert_eq!(&Merged::of(backwards), &merged);
        // An older report of a replica says nothing beside its newer one.
        let older = Report { at: at(0), nodes: BTreeMap::new(), ..all[0].clone() };
        prop_assert_eq!(&Merged::of(all.iter().cloned().chain([older.clone()])), &merged);
        prop_assert_eq!(&Merged::of([older].into_iter().chain(all)), &merged);
    }

    #[test]
    fn one_report_merges_to_itself(tables in tables()) {
        let report = reports(&tables).remove(0);
        prop_assert_eq!(Merged::of([report.clone()]).nodes, report.nodes);
    }

    #[test]
    fn polls_are_summed_and_the_newest_counts(tables in tables()) {
        let merged = Merged::of(reports(&tables));
        for (name, node) in &merged.nodes {
            for (server, row) in node.rows.iter() {
                let parts = tables.iter().filter_map(|table| table.nodes().get(name)?.rows.get(server));
                let parts: Vec<_> = parts.collect();
                prop_assert_eq!(row.polls, parts.iter().map(|part| part.polls).sum::<u64>());
                prop_assert_eq!(Some(row.last), parts.iter().map(|part| part.last).max());
                prop_assert_eq!(Some(row.first), parts.iter().map(|part| part.first).min());
                prop_assert_eq!(row.told, parts.iter().filter_map(|part| part.told).max());
                prop_assert!(row.interval <= parts.iter().filter_map(|part| part.interval).max());
            }
        }
    }

    #[test]
    fn what_was_kept_reads_back(tables in tables()) {
        for report in reports(&tables) {
            let read = Report::from_bytes(&report.to_bytes(&prefix()), &prefix());
            prop_assert_eq!(read, Ok(report));
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        let _ = Report::from_bytes(&bytes, &prefix());
        let _ = Report::parse(&bytes, &prefix());
    }
}
