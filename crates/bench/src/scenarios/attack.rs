//! What one hostile client costs the others: a quiet phase, then an attack, on the same process.

mod bodies;
mod half_open;
mod large;
mod locks;
mod objects;
mod oversized;
mod reports;
mod vitals;
mod watch;
mod zeros;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use async_trait::async_trait;
use tokio::{task::JoinSet, time::timeout};

use self::{
    vitals::Vitals,
    watch::{ClientFigures, watch},
};
use super::{Answer, Plan};
use crate::{
    Bound, Figure, Measure, Unit,
    http::Client,
    process::{Program, config},
    receiver::Receiver,
    scratch::Scratch,
};

/// How much slower other requests may be than in the quiet phase.
const SLOWER: f64 = 5.0;
const HEALTH_MS: f64 = 200.0;
const MEMORY_MIB: f64 = 600.0;
/// A lease that was lost must have expired, and its messages must have come again.
const PATIENCE: Duration = Duration::from_secs(90);

/// One way to use up what all clients share. A file each; listed in [`ATTACKS`].
#[async_trait]
trait Attack: Send + Sync {
    /// Its name on the command line.
    fn name(&self) -> &'static str;

    /// Settings that it needs besides the queues `other`, which is delivered, and `attacked`, which
    /// is not, as TOML. `receiver` is a place to deliver to that is not measured.
    fn settings(&self, _receiver: &Receiver) -> String {
        String::new()
    }

    /// Attacks until the target's time is over; it is dropped then. Rejections are what it is expected to be
    /// met with, and no errors.
    async fn run(&self, target: &Target) -> Result<()>;
}

const ATTACKS: &[&dyn Attack] = &[
    &zeros::Zeros,
    &oversized::OversizedBodies,
    &objects::Objects,
    &bodies::Bodies,
    &half_open::HALF_OPEN,
    &half_open::HALF_OPEN_FULL,
    &locks::LockedKey,
    &locks::LockedParticipant,
    &reports::Reports,
    &large::LargeBodies,
];

/// What is attacked.
#[derive(Clone, Debug)]
struct Target {
    /// Host and port of `consign serve`.
    address: String,
    /// URL of its database.
    database: String,
    until: Instant,
}

impl Target {
    fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    /// Posts a body over and over from so many connections.
    async fn flood(&self, clients: usize, path: &str, body: &str) {
        let mut flood = JoinSet::new();
        for _ in 0..clients {
            let (target, path, body) = (self.clone(), path.to_owned(), body.to_owned());
            flood.spawn(async move {
                while !target.is_over() {
                    // A refusal ends neither the attack nor, as a rule, the connection.
                    drop(target.post_once(&path, &body).await);
                }
            });
        }
        while flood.join_next().await.is_some() {}
    }

    async fn post_once(&self, path: &str, body: &str) -> Result<()> {
        let mut client = Client::connect(&self.address).await?;
        client.post(path, body).await.map(drop)
    }
}

/// What was measured of one attack.
struct AttackFigures {
    quiet: ClientFigures,
    attacked: ClientFigures,
    doubled: u64,
    vitals: Vitals,
}

pub(super) async fn run(plan: &Plan, scratch: &Scratch) -> Result<Answer> {
    let program = plan.program()?;
    // Its own schema, so that an older program can be measured.
    let mut migrate = program.command(&["migrate"], "migrate", &config(scratch.url(), ""))?;
    if !migrate.status().await?.success() {
        bail!("consign migrate: {}", program.log_text("migrate"));
    }
    let mut figures = Vec::new();
    for attack in chosen(&plan.attacks)? {
        let mut rounds = Vec::new();
        for round in 0..plan.rounds {
            let measured = measure(plan, scratch, &program, (*attack, round)).await;
            rounds.push(measured.with_context(|| format!("attack {}", attack.name()))?);
        }
        figures.extend(figures_of(attack.name(), &rounds));
        let last = &rounds[rounds.len() - 1];
        plan.say(format!(
            "{}: {} of {} answered, longest /healthz {:.0} ms",
            attack.name(),
            last.attacked.answered,
            last.attacked.answered + last.attacked.refused,
            last.attacked.health_max.as_secs_f64() * 1e3
        ));
    }
    let notes = vec![format!(
        "each attack meets a `consign serve` of its own that delivers another queue meanwhile; 20 enqueues into that \
         queue and 10 `/healthz` a second, each on a connection of its own, {:.0} s quiet and {:.0} s attacked",
        plan.counts.attack.as_secs_f64(),
        plan.counts.attack.as_secs_f64()
    )];
    Ok((figures, notes))
}

fn chosen(names: &[String]) -> Result<Vec<&'static &'static dyn Attack>> {
    let known = || ATTACKS.iter().map(|attack| attack.name());
    for name in names {
        if !known().any(|known| known == name) {
            let known: Vec<&str> = known().collect();
            bail!(
                "unknown attack {name:?}; known attacks: {}",
                known.join(", ")
            );
        }
    }
    let is_chosen =
        |attack: &&&dyn Attack| names.is_empty() || names.iter().any(|name| name == attack.name());
    Ok(ATTACKS.iter().filter(is_chosen).collect())
}

async fn measure(
    plan: &Plan,
    scratch: &Scratch,
    program: &Program,
    (attack, round): (&'static dyn Attack, u32),
) -> Result<AttackFigures> {
    let (other, unmeasured) = (
        Receiver::start(Duration::ZERO).await?,
        Receiver::start(Duration::ZERO).await?,
    );
    let queues = other.queue("other", "") + "[queues.attacked]\n" + &attack.settings(&unmeasured);
    let name = format!("{}-{round}", attack.name());
    let config = config(scratch.url(), &queues);
    let serve = program.start("serve", &name, &config).await?;
    let address = serve.address()?.to_owned();
    let quiet = watch(&address, plan.counts.attack).await?;
    let target = Target {
        address: address.clone(),
        database: scratch.url().to_owned(),
        until: Instant::now() + plan.counts.attack,
    };
    let mut attacking = JoinSet::new();
    attacking.spawn(async move { attack.run(&target).await });
    let watching = Vitals::watch(scratch.connect().await?);
    let attacked = watch(&address, plan.counts.attack).await?;
    if let Some(Ok(ended)) = attacking.try_join_next() {
        ended?;
    }
    attacking.shutdown().await;
    let vitals = watching.end(serve.pid).await?;
    let expected = quiet.answered + attacked.answered;
    other.wait_for(expected, PATIENCE).await?;
    // What was delivered twice came from a lease that had expired; both are seen once it is quiet.
    let doubled = settled(&other).await;
    drop(timeout(PATIENCE, serve.terminate()).await);
    Ok(AttackFigures {
        quiet,
        attacked,
        doubled,
        vitals,
    })
}

/// Deliveries too many, once none has come for two seconds.
async fn settled(receiver: &Receiver) -> u64 {
    let mut seen = receiver.seen();
    while receiver
        .wait_for(seen + 1, Duration::from_secs(2))
        .await
        .is_ok()
    {
        seen = receiver.seen();
    }
    receiver.messages_and_repeats().1
}

fn figures_of(name: &str, rounds: &[AttackFigures]) -> Vec<Figure> {
    let alone = |what: &str, unit, value: &dyn Fn(&AttackFigures) -> f64| {
        let values: Vec<f64> = rounds.iter().map(value).collect();
        Figure::alone(format!("{name}, {what}"), unit, &values)
    };
    let at_most = |figure: Figure, limit| figure.target(Measure::Value, Bound::AtMost, limit);
    let p99 = |seen: &ClientFigures| seen.times.value_at_percentile(99.0) as f64 / 1e3;
    let p99s: Vec<(f64, f64)> = rounds
        .iter()
        .map(|round| (p99(&round.attacked), p99(&round.quiet)))
        .collect();
    let p99 = Figure::beside(
        format!("{name}, other enqueues p99"),
        Unit::Milliseconds,
        "quiet",
        &p99s,
    );
    let refused = alone("other requests refused", Unit::Count, &|round| {
        round.attacked.refused as f64
    });
    let health = alone("longest /healthz", Unit::Milliseconds, &|round| {
        round.attacked.health_max.as_secs_f64() * 1e3
    });
    let doubled = alone("deliveries doubled", Unit::Count, &|round| {
        round.doubled as f64
    });
    let peak = alone("peak memory", Unit::Mebibytes, &|round| {
        round.vitals.peak_mib
    });
    vec![
        alone("other requests answered", Unit::Count, &|round| {
            round.attacked.answered as f64
        }),
        at_most(refused, 0.0),
        p99.target(Measure::Ratio, Bound::AtMost, SLOWER),
        at_most(health, HEALTH_MS),
        at_most(doubled, 0.0),
        at_most(peak, MEMORY_MIB),
        alone("memory afterwards", Unit::Mebibytes, &|round| {
            round.vitals.afterwards_mib
        }),
        alone("largest database session", Unit::Mebibytes, &|round| {
            round.vitals.session_mib
        }),
    ]
}
