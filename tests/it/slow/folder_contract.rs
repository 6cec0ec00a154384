//! The contract of all stores over a folder: ten thousand keys in transactions, each of which waits
//! for the disk.

use std::sync::Arc;

use tidegate::kv::directory::DirectoryKv;

use crate::contract::contract;

#[test]
fn a_folder_keeps_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let kv = Arc::new(DirectoryKv::open(folder.path(), tidegate::clock::now).unwrap());
    contract(|_| kv.clone());
}
