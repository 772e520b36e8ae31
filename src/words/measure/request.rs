//! The kinds of request that a session can send, and one value for each of them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

counted_by! {
    /// One kind of request. A read that sets a watch is a kind of its own, because it costs the server more.
    RequestKind {
        /// create, of any mode.
        Create: "create",
        /// delete.
        Delete: "delete",
        /// getChildren without a watch.
        GetChildren: "get_children",
        /// getChildren that sets a child watch.
        GetChildrenWatch: "get_children_watch",
        /// getData without a watch.
        GetData: "get_data",
        /// getData that sets a data watch.
        GetDataWatch: "get_data_watch",
        /// exists without a watch.
        Exists: "exists",
        /// exists that sets a watch.
        ExistsWatch: "exists_watch",
        /// setData.
        SetData: "set_data",
        /// A multi, counted as one request.
        Multi: "multi",
        /// sync.
        Sync: "sync",
        /// removeWatches, which the client sends when an armed watch is given up.
        RemoveWatches: "remove_watches",
    }
    /// One number for each kind of request. In files every kind is there by its name, also with 0: it was counted.
    #[serde(from = "BTreeMap<RequestKind, u64>", into = "BTreeMap<RequestKind, u64>")]
    PerRequest
}
