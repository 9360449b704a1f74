"""What people look at: tables on the terminal, pictures, a commented study file."""
