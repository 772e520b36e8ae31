//! One connection of a client, from its being accepted to its end.

use std::sync::Arc;
use std::time::Duration;

use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::conversation::Conversation;
use super::orders::{Ending, Orders};
use super::pump::{Pump, has_hung_up};
use super::table::{Seat, Table};

/// Serves a client until one of the two sides or a knob ends it.
pub async fn serve(client: TcpStream, server: Arc<str>, table: Arc<Table>) {
    let seat = table.join();
    if between(&client, &server, &seat).await == Err(Ending::Reset) {
        reset_at_close(&client);
    }
    // What has left the table is closed.
    drop(client);
    drop(seat);
}

async fn between(client: &TcpStream, server: &str, seat: &Seat) -> Result<(), Ending> {
    let mut orders = seat.orders();
    while_stalled(client, &mut orders).await?;
    let server = connect(server, &mut orders).await?;
    // Requests are small, and the next one need not wait for this one's acknowledgement.
    for socket in [client, &server] {
        let _ = socket.set_nodelay(true);
    }
    let conversation = Conversation::new(seat);
    let sockets = [client, &server];
    let requests = Pump::to_server(sockets, &conversation, seat.orders(), seat.number());
    let replies = Pump::to_client(sockets, &conversation, seat.orders(), seat.number());
    let ended = tokio::try_join!(requests.run(), replies.run());
    if ended == Err(Ending::Reset) {
        reset_at_close(&server);
    }
    ended.map(|_| ())
}

/// Waits until data may move. A client that has gone by then is not connected at all.
async fn while_stalled(client: &TcpStream, orders: &mut watch::Receiver<Orders>) -> Result<(), Ending> {
    let is_stalled = |orders: &watch::Receiver<Orders>| orders.borrow().settings.stalled;
    let was_stalled = is_stalled(orders);
    let mut now = orders.borrow_and_update().clone();
    while now.ending().is_none() && now.settings.stalled {
        if orders.changed().await.is_err() {
            return Err(Ending::Cut);
        }
        now = orders.borrow_and_update().clone();
    }
    if let Some(ending) = now.ending() {
        return Err(ending);
    }
    if !was_stalled {
        return Ok(());
    }
    // The runtime looks at the sockets before this goes on, so that an end which has come is known.
    tokio::task::yield_now().await;
    if has_hung_up(client) { Err(Ending::Cut) } else { Ok(()) }
}

/// Connects to the server. A client whose server is not there sees its connection reset, which is as near as a
/// proxy comes to a refusal.
async fn connect(server: &str, orders: &mut watch::Receiver<Orders>) -> Result<TcpStream, Ending> {
    let told = async {
        let told = orders.wait_for(|orders| orders.ending().is_some()).await;
        told.ok().and_then(|orders| orders.ending()).unwrap_or(Ending::Cut)
    };
    tokio::select! {
        ending = told => Err(ending),
        connected = TcpStream::connect(server) => connected.map_err(|_| Ending::Reset),
    }
}

fn reset_at_close(socket: &TcpStream) {
    // A socket that is gone already cannot be reset.
    let _ = SockRef::from(socket).set_linger(Some(Duration::ZERO));
}
