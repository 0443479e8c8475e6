"""What commands print: tables, plain lines and JSON."""
