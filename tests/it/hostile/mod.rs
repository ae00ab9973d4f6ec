//! What somebody hostile would try, in the order of what he can reach: nobody stops, frees, delays or reads what is not his.

mod access;
mod acts;
mod clock;
mod crowd;
mod damage;
mod edges;
mod guard;
mod lanes;
mod named;
mod neighbours;
mod nonsense;
mod restarts;
mod stranger;
