//! The benchmark without the rest of consign: `cargo run --release -p consign-bench --example bench`.

use std::process::ExitCode;

use clap::Parser;
use consign_bench::Options;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    options: Options,

    /// A PostgreSQL server
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    database: Option<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let say = |line: &str| eprintln!("{line}");
    let report = consign_bench::run(&cli.options, cli.database.as_deref(), &say).await?;
    match cli.json {
        true => println!("{}", serde_json::to_string_pretty(&report)?),
        false => print!("{report}"),
    }
    let failed = cli.options.check && report.missed().next().is_some();
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}
