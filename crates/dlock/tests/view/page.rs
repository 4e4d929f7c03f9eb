//! The two commands with which the page about operations begins, as the page writes them.

use std::fs;
use std::path::Path;

use lock_tests::RedisServer;

use crate::program::client;
use crate::terminal::Terminal;

/// The first block of commands of the page, without comments.
fn commands() -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/OPERATIONS.md");
    let page = fs::read_to_string(page).unwrap();
    let block = page.split("```").nth(1).unwrap().strip_prefix("text\n").unwrap();
    let command = |line: &str| line.split('#').next().unwrap_or_default().trim().to_owned();
    block.lines().map(command).collect()
}

/// The tests of the example run it over a server. `cargo` has built this program, so it does not build it once more
/// here.
#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_page_show_who_holds_and_who_waits() {
    let commands = commands();
    let [store, load, top] = &commands[..] else { panic!("{commands:?}") };
    let url = store.strip_prefix("export LOCK_URL=").unwrap();
    let server = RedisServer::start();
    // The port of the page may be in use.
    let own = url.replace("6379", &server.port().to_string());
    assert_eq!(own, server.url());

    let example = load.strip_prefix("cargo run --example ").unwrap();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let manifest = fs::read_to_string(examples.join("Cargo.toml")).unwrap();
    assert!(manifest.contains(&format!("[[example]]\nname = \"{example}\"\n")), "{example}");

    let args = top.strip_prefix("cargo run -p dlock -- ").unwrap();
    let locks = client(&own, "billing").await;
    let _guard = locks.lock("orders/42").await.unwrap();
    let other = client(&own, "refunds").await;
    let waits = tokio::spawn(async move { other.lock("orders/42").await.map(drop) });
    let mut terminal = Terminal::run(&own, &args.split(' ').collect::<Vec<_>>());
    terminal.shows(&["orders/42", "holds  billing", "waits  refunds"]);
    terminal.press("q");
    assert_eq!(terminal.end().0.code(), Some(0));
    waits.abort();
}
