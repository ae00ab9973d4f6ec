//! What somebody hostile would try, in the order of what he can reach: nobody stops, frees, delays or reads what is not his.

mod access;
mod clock;
mod acts;
mod crowd;
mod damage;
mod edges;
mod guard;
mod lanes;
mod named;
mod neighbours;
mod nonsense;
mod stranger;
mod restarts;
