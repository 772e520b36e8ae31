//! Every lock sends exactly the requests of its recipe, one by one: alone, in a queue, on timeout, and when a
//! waiter in the middle leaves.

mod broken;
mod bytes;
mod clients;
mod counting;
mod faster;
mod multi;
mod published;
mod queues;
mod races;
mod read_write;
mod releasing;
mod semaphores;
