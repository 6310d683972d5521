//! The output of the demo.

use serde_json::{Value, json};

use crate::{
    database::Address,
    failure::{Exit, Failure},
    output::Output,
};

/// Prints scenes and what happens in them.
pub(super) struct SceneWriter {
    out: Output,
    scene: u32,
}

impl SceneWriter {
    pub(super) fn new(out: Output) -> Self {
        Self { out, scene: 0 }
    }

    pub(super) fn out(&self) -> Output {
        self.out
    }

    /// Begins a scene.
    pub(super) fn scene(&mut self, title: &str) -> Result<(), Failure> {
        self.scene += 1;
        if self.out.is_json() {
            let event = json!({"event": "scene", "scene": self.scene, "text": title});
            return Ok(self.out.json(&event)?);
        }
        if self.scene > 1 {
            self.out.line("")?;
        }
        Ok(self.out.line(format_args!("{}. {title}", self.scene))?)
    }

    /// Prints what happened; the caller has checked it.
    pub(super) fn happened(&self, event: &str, text: &str, facts: Value) -> Result<(), Failure> {
        if !self.out.is_json() {
            return Ok(self.out.line(format_args!("   {text}"))?);
        }
        let event = json!({"event": event, "scene": self.scene, "text": text, "facts": facts});
        Ok(self.out.json(&event)?)
    }

    /// Names a guarantee that was just seen to hold.
    pub(super) fn shown(&self, guarantee: &str, text: &str) -> Result<(), Failure> {
        if !self.out.is_json() {
            return Ok(self.out.line(format_args!("   => {guarantee}: {text}"))?);
        }
        let (scene, event) = (self.scene, "guarantee");
        let event = json!({"event": event, "scene": scene, "guarantee": guarantee, "text": text});
        Ok(self.out.json(&event)?)
    }

    pub(super) fn kept(&self, address: &Address) -> Result<(), Failure> {
        if self.out.is_json() {
            let event = json!({"event": "kept", "database": address.to_string()});
            return Ok(self.out.json(&event)?);
        }
        self.out.line("")?;
        self.out
            .line(format_args!("The database is kept. Look around:"))?;
        Ok(self
            .out
            .line(format_args!("   consign --database {address} ls"))?)
    }
}

/// Stops the demo when something is not as it was promised.
pub(super) fn check(holds: bool, what: impl FnOnce() -> String) -> Result<(), Failure> {
    if holds {
        return Ok(());
    }
    let message = format!("the demo failed: {}", what());
    Err(Failure::new(Exit::Wrong, "demo_failed", message))
}
