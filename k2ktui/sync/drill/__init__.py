"""What runs, views and jobs ask of drills: they are below the package `drill`, which uses them."""
