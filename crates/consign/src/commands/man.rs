//! `consign man`: manual pages.

use std::{fs, path::PathBuf};

use clap::Args;

use crate::{
    cli,
    context::Context,
    failure::{Exit, Failure},
    output::count,
};

/// Write manual pages: one for the program and one for each command.
#[derive(Args, Debug)]
pub(crate) struct Man {
    /// The folder, such as /usr/local/share/man/man1; it is made if it is missing
    folder: PathBuf,
}

impl Man {
    pub(crate) fn run(self, context: &Context) -> Result<Exit, Failure> {
        let failed = |error: std::io::Error| {
            Failure::refused(format!(
                "manual pages cannot be written to {}: {error}",
                self.folder.display()
            ))
        };
        fs::create_dir_all(&self.folder).map_err(failed)?;
        let mut command = cli::command(context.sources().registry);
        command.build();
        let mut pages = 0;
        write(&command, &self.folder, &mut pages).map_err(failed)?;
        context.out.note(format!(
            "{} in {}",
            count(pages, "page"),
            self.folder.display()
        ))?;
        Ok(Exit::Fine)
    }
}

fn write(
    command: &clap::Command,
    folder: &std::path::Path,
    pages: &mut u64,
) -> std::io::Result<()> {
    let page = clap_mangen::Man::new(command.clone());
    let mut text = Vec::new();
    page.render(&mut text)?;
    fs::write(folder.join(page.get_filename()), text)?;
    *pages += 1;
    let own = |it: &&clap::Command| it.get_name() != "help" && !it.is_hide_set();
    command
        .get_subcommands()
        .filter(own)
        .try_for_each(|it| write(it, folder, pages))
}
