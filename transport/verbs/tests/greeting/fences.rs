//! Greetings of an earlier life of a rank have no effect.

use super::network::{contact, first, identity};
use core::time::Duration;
use proptest::prelude::*;
use refrain_verbs::greeting::{
    Connecting, Directory, Greeting, Identity, NUMBER_MAX, Offer, Stage, Standing,
};

const NOW: Duration = Duration::from_secs(1);

fn any_greeting(from: Identity, to: Identity) -> impl Strategy<Value = Greeting> {
    let stage = prop_oneof![
        Just(Stage::Fresh),
        Just(Stage::Bound),
        Just(Stage::Established)
    ];
    (1..5_u32, 2..NUMBER_MAX, 0..NUMBER_MAX, stage).prop_map(
        move |(generation, qpn, psn, stage)| Greeting {
            from,
            to,
            offer: Offer {
                generation,
                qpn,
                psn,
            },
            stage,
            contact: contact(1),
        },
    )
}

proptest! {
    #![proptest_config(super::seed::config(1_000))]

    // FENCE-1
    #[test]
    fn greetings_of_and_for_earlier_lives_change_nothing(
        own in prop::collection::vec(any_greeting(identity(1), identity(0)), 0..4),
        late in any_greeting(identity(7), identity(0)),
        misled in any_greeting(identity(1), identity(7)),
    ) {
        let mut side = Connecting::new(NOW, identity(0), contact(0), identity(1), first(0));
        let mut effects = Vec::new();
        for greeting in &own {
            side.heard(NOW, greeting, &mut effects);
        }
        let before = format!("{side:?}");
        effects.clear();
        side.heard(NOW * 2, &late, &mut effects);
        side.heard(NOW * 2, &misled, &mut effects);
        prop_assert_eq!(effects, []);
        prop_assert_eq!(format!("{side:?}"), before);
    }

    // FENCE-1
    #[test]
    fn an_identity_that_was_removed_never_counts_again(
        late in any_greeting(identity(1), identity(0)),
    ) {
        let mut directory = Directory::new(identity(0));
        prop_assert_eq!(directory.of(&late), Standing::Unknown);
        directory.insert(identity(1), 11).expect("it is new");
        prop_assert_eq!(directory.of(&late), Standing::Known(11));
        prop_assert_eq!(directory.remove(identity(1)), Some(11));
        prop_assert_eq!(directory.of(&late), Standing::Gone);
        prop_assert!(directory.insert(identity(1), 12).is_err());
        prop_assert_eq!(directory.of(&late), Standing::Gone);
        // The next life has another identity.
        directory.insert(identity(2), 13).expect("it is new");
        prop_assert_eq!(directory.of(&late), Standing::Gone);
        prop_assert_eq!(directory.of(&Greeting { from: identity(2), ..late }), Standing::Known(13));
    }
}

#[test]
fn an_endpoint_is_known_once_and_not_to_itself() {
    let mut directory = Directory::new(identity(0));
    assert!(directory.insert(identity(0), 1).is_err());
    directory.insert(identity(1), 1).expect("it is new");
    assert!(directory.insert(identity(1), 2).is_err());
    let greeting = Greeting {
        from: identity(1),
        to: identity(3),
        offer: first(1),
        stage: Stage::Fresh,
        contact: contact(1),
    };
    assert_eq!(directory.of(&greeting), Standing::ForAnother);
    let to_me = Greeting {
        to: identity(0),
        ..greeting
    };
    assert_eq!(directory.of(&to_me), Standing::Known(1));
    // An identity that was never known is refused, too, once it is removed.
    assert_eq!(directory.remove(identity(5)), None);
    assert!(directory.insert(identity(5), 5).is_err());
}
