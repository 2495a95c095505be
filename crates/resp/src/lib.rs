//! RESP2, RESP3 and inline commands: parsing requests, encoding replies.
