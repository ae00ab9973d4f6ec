//! What somebody hostile would try, in the order of what he can reach: nobody stops, frees, delays or reads what is not his.

mod lanes;
mod guard;
