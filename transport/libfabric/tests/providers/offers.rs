//! Prints the offers of providers as a table, and checks that they require nothing that the
//! endpoint does not fulfil.

use crate::pair::{hints, with_every_provider};
use refrain_libfabric::MR_MODES_HANDLED;
use refrain_libfabric::constants::*;

#[test]
fn providers_ask_for_nothing_that_the_endpoint_does_not_do() {
    with_every_provider(|library, info| {
        println!(
            "  {} {} fabric {} domain {} inject {} iov {} receives {} message {:#x} \
             mr_mode {:#x} mode {:#x} SAS {} keys {} address {}",
            info.provider(),
            info.provider_version(),
            info.fabric_name(),
            info.domain_name(),
            info.inject_bytes(),
            info.tx_iov_max(),
            info.rx_depth(),
            info.message_bytes_max(),
            info.mr_mode(),
            info.mode(),
            info.msg_order() & FI_ORDER_SAS != 0,
            info.mr_key_bytes(),
            info.address_format(),
        );
        assert_eq!(info.mr_mode() & !MR_MODES_HANDLED, 0);
        assert_eq!(info.mode() & !(FI_CONTEXT | FI_CONTEXT2), 0);
        assert_eq!(info.caps() & (FI_MSG | FI_RMA), FI_MSG | FI_RMA);
        assert!(info.tx_iov_max() >= 2, "a header and a record");
        assert!(info.inject_bytes() <= info.message_bytes_max());
        let copy = info.clone();
        assert_eq!(copy.provider(), info.provider());
        assert_eq!(copy.source_address(), info.source_address());
        assert!(library.infos(&hints("no-such-provider")).is_err());
    });
}

#[test]
fn an_order_that_is_asked_for_is_kept() {
    with_every_provider(|library, info| {
        let mut hints = hints(&info.provider());
        hints.msg_order = FI_ORDER_SAS;
        match library.infos(&hints) {
            Ok(infos) => assert!(
                infos
                    .iter()
                    .all(|info| info.msg_order() & FI_ORDER_SAS != 0)
            ),
            Err(error) => assert!(error.is_no_data(), "{error}"),
        }
    });
}

/// Without a node, the offers have real addresses.
#[test]
fn a_source_without_a_node_is_still_found() {
    with_every_provider(|library, info| {
        let mut hints = hints(&info.provider());
        hints.node = None;
        let infos = library.infos(&hints).unwrap();
        assert!(!infos[0].source_address().is_empty());
    });
}
