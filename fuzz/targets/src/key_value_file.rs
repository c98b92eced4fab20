//! A name server's own files: the key-value table and the settings.

use cluster::name_server::key_values::KeyValues;
use cluster::name_server::options::Options;

/// What is read comes back the same after it was written.
pub fn run(data: &[u8]) {
    if let Ok(table) = KeyValues::from_json(data) {
        assert_eq!(KeyValues::from_json(table.to_json().as_bytes()), Ok(table));
    }
    let mut options = Options::default();
    if options.apply(data).is_ok() {
        let mut again = Options::default();
        again.apply(options.to_text().as_bytes()).expect("settings that were written are read");
        assert_eq!(again, options);
    }
}

/// Files as the official name server writes them.
pub fn seeds() -> Vec<Vec<u8>> {
    let files = [
        r#"{"configTable":{"ORDER_TOPIC_CONFIG":{"t":"b:8"},"n":{}}}"#,
        r#"{"configTable":null}"#,
        "# comment\n! another\norderMessageEnable=true\r\nwaitSecondsForService:7\n",
        "kvConfigPath=x",
    ];
    let mut seeds: Vec<Vec<u8>> = files.iter().map(|text| text.as_bytes().to_vec()).collect();
    seeds.push(Options::default().to_text().into_bytes());
    seeds
}
