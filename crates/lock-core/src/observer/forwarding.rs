//! Several observers as one.

use super::{
    AcquireBegun, AcquireEnded, AcquireWaits, ClockJumped, Connected, Disconnected, DriverStalled,
    HandedOver, HoldBegun, HoldEnded, LeaseRenewed, Loss, NodeBack, NodeKeptOut, Observer,
    Observers, Redirected, RenewalLate, StoreAnswered,
};

macro_rules! forward {
    ($($method:ident: $event:ty,)*) => {
        /// Tells each of the observers, so that an app can pass several observers as one.
        #[deny(clippy::missing_trait_methods)]
        impl Observer for Observers {
            $(fn $method(&self, event: &$event) {
                self.tell(|observer| observer.$method(event));
            })*
        }
    };
}

forward! {
    acquire_begun: AcquireBegun<'_>,
    acquire_waits: AcquireWaits<'_>,
    acquire_ended: AcquireEnded<'_>,
    hold_begun: HoldBegun<'_>,
    hold_ended: HoldEnded<'_>,
    lease_renewed: LeaseRenewed<'_>,
    lease_lost: Loss<'_>,
    handed_over: HandedOver<'_>,
    store_answered: StoreAnswered<'_>,
    connected: Connected<'_>,
    disconnected: Disconnected<'_>,
    redirected: Redirected<'_>,
    node_kept_out: NodeKeptOut<'_>,
    node_back: NodeBack<'_>,
    driver_stalled: DriverStalled,
    clock_jumped: ClockJumped,
    renewal_late: RenewalLate<'_>,
}
